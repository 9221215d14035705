// May ereport; owns nothing. See owners.hpp.
#include "work/owners.hpp"

#include "work/scan_position.hpp"

namespace pawl {

struct KnownHolder {
    Datum owner;
    TimestampTz mark;  // no lease of his that ends earlier was there
    TimestampTz next;  // the earliest of his leases when all was read
};

struct KnownOwners {
    TimestampTz read_at;    // a clock that is behind it was set back, and what follows says nothing
    TimestampTz all_again;  // from when on all of the index is read again
    int n;
    KnownHolder owners[FLEXIBLE_ARRAY_MEMBER];
};

namespace {

Datum lasting_owner(const Managed& managed, Datum owner) {
    int16 length;
    bool by_value;
    get_typlenbyval(managed.owner.type, &length, &by_value);
    return datumCopy(owner, by_value, length);
}

RowOwner holder_from(const Managed& managed, HeapTuple row) {
    bool null;
    RowOwner owner;
    owner.owner = lasting_owner(managed, SPI_getbinval(row, SPI_tuptable->tupdesc, 1, &null));
    owner.lease = DatumGetTimestampTz(SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &null));
    owner.has_lease = !null;
    return owner;
}

// "SELECT owner, lease FROM table WHERE owner", to be followed by what he is to be.
const char* select_holder(const Target& target) {
    const Managed& managed = *target.binding->managed;
    const char* owner = column_name(managed.owner);
    return psprintf("SELECT %s AS owner, %s AS lease FROM %s AS %s WHERE %s", owner, column_name(managed.lease),
                    target.table, row_alias, owner);
}

// One step of the index for each owner: it is ordered by owner and lease.
RowOwners read_all(const Target& target) {
    const Managed& managed = *target.binding->managed;
    const char* next = select_holder(target);
    const char* first = psprintf("ORDER BY %s, %s LIMIT 1", column_name(managed.owner), column_name(managed.lease));
    const char* query = psprintf(
        "WITH RECURSIVE h AS ((%s IS NOT NULL %s) UNION ALL SELECT n.owner, n.lease FROM h CROSS JOIN LATERAL "
        "(%s %s h.owner %s) n) SELECT owner, lease FROM h",
        next, first, next, greater_than(managed.owner.type), first);
    const int n = static_cast<int>(run_planned(*target.binding, query, Parameters{}, Order::of_leases));
    RowOwners found = {static_cast<RowOwner*>(palloc(sizeof(RowOwner) * Max(n, 1))), n, DT_NOEND, false};
    for (int i = 0; i < n; ++i) found.items[i] = holder_from(managed, SPI_tuptable->vals[i]);
    return found;
}

// A lease that is taken later ends later than now, unless somebody sets the clock, or the column, back.
TimestampTz mark_of(const RowOwner& owner, TimestampTz now) {
    return owner.has_lease ? Min(owner.lease, now) : now;
}

void forget(Binding& binding) {
    KnownOwners* known = binding.known_owners;
    binding.known_owners = nullptr;
    if (known == nullptr) return;
    int16 length;
    bool by_value;
    get_typlenbyval(binding.managed->owner.type, &length, &by_value);
    for (int i = 0; i < known->n && !by_value; ++i) pfree(DatumGetPointer(known->owners[i].owner));
    pfree(known);
}

void remember(Binding& binding, const RowOwners& found, const HeadScan& scan, TimestampTz again) {
    MemoryContext caller = MemoryContextSwitchTo(GetMemoryChunkContext(binding.keys));
    auto* known = static_cast<KnownOwners*>(palloc(offsetof(KnownOwners, owners) + sizeof(KnownHolder) * found.n));
    known->read_at = scan.begun;
    known->all_again = again;
    known->n = found.n;
    for (int i = 0; i < found.n; ++i)
        known->owners[i] = {lasting_owner(*binding.managed, found.items[i].owner), mark_of(found.items[i], scan.begun),
                            found.items[i].has_lease ? found.items[i].lease : 0};
    binding.known_owners = known;
    MemoryContextSwitchTo(caller);
}

// The earliest of his leases that has run out by then; else what is known of the next one.
RowOwner read_on(const Target& target, const KnownHolder& known, TimestampTz until) {
    const Managed& managed = *target.binding->managed;
    const char* lease = column_name(managed.lease);
    Parameters parameters = {};
    parameters.add(managed.owner.type, known.owner);
    parameters.add(TIMESTAMPTZOID, TimestampTzGetDatum(known.mark));
    parameters.add(TIMESTAMPTZOID, TimestampTzGetDatum(until));
    const char* query =
        psprintf("%s %s $1 AND %s OPERATOR(pg_catalog.>=) $2 AND %s OPERATOR(pg_catalog.<) $3 ORDER BY %s, %s LIMIT 1",
                 select_holder(target), equality(managed.owner.type), lease, lease, column_name(managed.owner), lease);
    if (run_planned(*target.binding, query, parameters, Order::of_leases) == 0)
        return {known.owner, known.next, known.next >= until};
    return holder_from(managed, SPI_tuptable->vals[0]);
}

RowOwners read_known(const Target& target, KnownOwners& known) {
    RowOwners found = {static_cast<RowOwner*>(palloc(sizeof(RowOwner) * Max(known.n, 1))), known.n, known.all_again,
                       true};
    for (int i = 0; i < known.n; ++i) {
        const TimestampTz until = GetCurrentTimestamp();
        found.items[i] = read_on(target, known.owners[i], until);
        known.owners[i].mark = mark_of(found.items[i], until);
        known.read_at = Max(known.read_at, until);
    }
    return found;
}

}  // namespace

RowOwners find_owners(const Target& target) {
    Binding& binding = *target.binding;
    KnownOwners* known = binding.known_owners;
    const TimestampTz now = GetCurrentTimestamp();
    if (known != nullptr && now >= known->read_at && now < known->all_again) return read_known(target, *known);
    forget(binding);
    const HeadScan scan = begin_head_scan();
    const RowOwners found = read_all(target);
    const TimestampTz again = end_head_scan(scan, found.n);
    if (again != 0) remember(binding, found, scan, again);
    return found;
}

}  // namespace pawl
