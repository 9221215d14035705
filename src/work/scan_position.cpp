// May ereport; owns nothing. See scan_position.hpp.
#include "work/scan_position.hpp"

#include "fire/needed_rights.hpp"

namespace pawl {

struct ScanPosition {
    ScanPosition* next;
    text* event;  // null: of timers
    text* queue;
    Datum* row;               // the values in the columns of the order; null: no row
    TimestampTz seen_at;      // if the clock is behind this it was set back, and the next two are ignored
    TimestampTz head_again;   // when the head is read again; 0: always
    TimestampTz head_before;  // until then the head is read only if no rows are behind the scan position
    uint64 undone;            // the value of the counter below when the scan position was last used
};

namespace {

// The pages that a scan of the head may touch before the head counts as full of dead rows: what the rows need, and
// about a tenth of a millisecond.
constexpr int64 pages_of_a_scan(int rows) {
    return 256 + int64{2} * rows;
}
constexpr int most_positions =
    64;  // positions a binding: there may be many queues, but a session claims from few of them again soon
int picking =
    0;  // depth of picks: a claim within a guard must not free the scan position that the claim around it uses
uint64 undone = 0;  // rolled back (sub)transactions of this session: rows that they claimed lie before the positions

constexpr int pause_factor = 20;  // scans of the head take at most a twentieth of the time
// Microseconds for which the head is left out at least. A row that overtakes others may wait that long.
constexpr int64 claims_pause = 50'000;

// The same for timers, while there are later timers to fire. A new timer lies behind the scan position, unless its
// transaction took longer than the timer or its due time was set to the past.
constexpr int64 timers_pause = 60'000'000;

MemoryContext memory_of(Binding& binding) {
    return GetMemoryChunkContext(binding.keys);
}

bool same(const text* one, const text* other) {
    return one == nullptr || other == nullptr ? one == other : view(one) == view(other);
}

text* lasting(const text* value) {
    return value == nullptr ? nullptr : make_text(view(value));
}

// The columns of the order: those of the claim order, or the due time, and then the key.
struct OrderColumn {
    AttrNumber attribute;  // in the root
    const char* name;
    bool descending;
};

int order_columns(const Binding& binding, const ScanPosition& position, OrderColumn* columns) {
    const Managed& managed = *binding.managed;
    int n = 0;
    auto add = [&](const char* name, bool descending) {
        columns[n++] = {get_attnum(binding.table, name), name, descending};
    };
    if (position.event == nullptr) add(NameStr(managed.due.name), false);
    for (int i = 0; position.event != nullptr && i < managed.claim_columns.n; ++i)
        add(managed.claim_columns.items[i], managed.claim_descending[i]);
    for (int i = 0; i < binding.nkeys; ++i) add(NameStr(binding.keys[i].name), false);
    return n;
}

const FormData_pg_attribute* column_of(const Binding& binding, const OrderColumn& column) {
    return TupleDescAttr(binding.row_descriptor, column.attribute - 1);
}

// The copy must not point into a TOAST table, whose row may be gone when it is read.
Datum lasting_value(const FormData_pg_attribute* column, Datum value) {
    return column->attlen == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(value))
                                : datumCopy(value, column->attbyval, column->attlen);
}

void free_row(const Binding& binding, ScanPosition& position, const OrderColumn* columns, int n) {
    if (position.row == nullptr) return;
    for (int i = 0; i < n; ++i)
        if (!column_of(binding, columns[i])->attbyval) pfree(DatumGetPointer(position.row[i]));
    pfree(position.row);
    position.row = nullptr;
}

void free_position(Binding& binding, ScanPosition* position) {
    OrderColumn columns[Parameters::most];
    free_row(binding, *position, columns, position->row == nullptr ? 0 : order_columns(binding, *position, columns));
    if (position->event != nullptr) pfree(position->event);
    if (position->queue != nullptr) pfree(position->queue);
    pfree(position);
}

// Frees the positions that were unused for longest.
void make_room(Binding& binding) {
    ScanPosition** link = &binding.positions;
    for (int n = 1; *link != nullptr && n < most_positions; ++n) link = &(*link)->next;
    while (*link != nullptr) {
        ScanPosition* last = *link;
        *link = last->next;
        free_position(binding, last);
    }
}

// The list is ordered by last use, the latest first.
ScanPosition* find_position(Binding& binding, const text* event, const text* queue) {
    for (ScanPosition** link = &binding.positions; *link != nullptr; link = &(*link)->next) {
        ScanPosition* found = *link;
        if (!same(found->event, event) || !same(found->queue, queue)) continue;
        *link = found->next;
        found->next = binding.positions;
        return binding.positions = found;
    }
    if (picking == 0) make_room(binding);
    MemoryContext caller = MemoryContextSwitchTo(memory_of(binding));
    auto* made = static_cast<ScanPosition*>(palloc0(sizeof(ScanPosition)));
    made->event = lasting(event);
    made->queue = lasting(queue);
    made->next = binding.positions;
    binding.positions = made;
    MemoryContextSwitchTo(caller);
    return made;
}

bool is_before(const ScanPosition& position, TimestampTz end) {
    const TimestampTz now = GetCurrentTimestamp();
    return now >= position.seen_at && now < end;
}

bool head_is_left_out(const ScanPosition& position) {
    return position.head_again != 0 && is_before(position, position.head_again);
}

void move_position(Binding& binding, ScanPosition& position, const FoundRow& row) {
    OrderColumn columns[Parameters::most];
    const int n = order_columns(binding, position, columns);
    free_row(binding, position, columns, n);
    if (position.head_again == 0) return;
    Datum values[Parameters::most];
    for (int i = 0; i < n; ++i) {
        bool null;
        values[i] = slot_getattr(row.slot, columns[i].attribute, &null);
        if (null) {  // no row sorts behind a null
            position.head_again = position.head_before = 0;
            return;
        }
    }
    MemoryContext caller = MemoryContextSwitchTo(memory_of(binding));
    position.row = static_cast<Datum*>(palloc(sizeof(Datum) * n));
    for (int i = 0; i < n; ++i) position.row[i] = lasting_value(column_of(binding, columns[i]), values[i]);
    MemoryContextSwitchTo(caller);
}

Batch pick_behind(const Binding& binding, const ScanPosition& position, PickRange pick, const void* request, int most) {
    Batch all = {static_cast<FoundRow*>(palloc(sizeof(FoundRow) * most)), 0};
    const int levels = position_levels(binding, position);
    for (int level = 0; level < levels && all.n < most; ++level) {
        const Batch some = pick(request, &position, level, most - all.n);
        memcpy(all.rows + all.n, some.rows, sizeof(FoundRow) * some.n);
        all.n += some.n;
    }
    return all;
}

Batch pick_head(const Binding& binding, ScanPosition& position, PickRange pick, const void* request, int most) {
    const HeadScan scan = begin_head_scan();
    const Batch batch = pick(request, nullptr, 0, most);
    position.head_again = end_head_scan(scan, batch.n);
    position.seen_at = GetCurrentTimestamp();
    const TimestampTz least = position.seen_at + (position.event == nullptr ? timers_pause : claims_pause);
    position.head_before = position.head_again == 0 ? 0 : Max(position.head_again, least);
    // Other sessions may have claimed, during a long scan, all that this scan's snapshot showed.
    return batch.n == 0 && position.head_again != 0 ? pick_behind(binding, position, pick, request, most) : batch;
}

}  // namespace

ScanPosition* claim_position(Binding& binding, const text* event, const text* queue) {
    return find_position(binding, event, queue);
}

ScanPosition* timer_position(Binding& binding) {
    return find_position(binding, nullptr, nullptr);
}

TimestampTz head_again(const ScanPosition& position) {
    return is_before(position, position.head_before) ? position.head_before : DT_NOEND;
}

HeadScan begin_head_scan() {
    return {pages_of_runs(), GetCurrentTimestamp()};
}

TimestampTz end_head_scan(const HeadScan& scan, int rows) {
    if (pages_of_runs() - scan.pages <= pages_of_a_scan(rows)) return 0;
    const TimestampTz now = GetCurrentTimestamp();
    return now + (now - scan.begun) * pause_factor;
}

static Batch pick_from(Binding& binding, ScanPosition& position, PickRange pick, const void* request, int most) {
    Batch batch = {nullptr, 0};
    if (position.undone != undone) position.head_again = position.head_before = 0;
    position.undone = undone;
    if (is_before(position, position.head_before)) batch = pick_behind(binding, position, pick, request, most);
    if (batch.n == 0 && !head_is_left_out(position)) batch = pick_head(binding, position, pick, request, most);
    if (batch.n > 0) move_position(binding, position, batch.rows[batch.n - 1]);
    return batch;
}

Batch pick_next(Binding& binding, ScanPosition& position, PickRange pick, const void* request, int most) {
    Batch batch;
    ++picking;
    PG_TRY();
    { batch = pick_from(binding, position, pick, request, most); }
    PG_FINALLY();
    { --picking; }
    PG_END_TRY();
    return batch;
}

void distrust_scan_positions() noexcept {
    ++undone;
}

int position_levels(const Binding& binding, const ScanPosition& position) {
    OrderColumn columns[Parameters::most];
    return position.row == nullptr ? 0 : order_columns(binding, position, columns);
}

void append_behind(StringInfo out, const Binding& binding, const ScanPosition& position, int level,
                   Parameters& parameters) {
    OrderColumn columns[Parameters::most];
    const int last = order_columns(binding, position, columns) - 1 - level;
    for (int i = 0; i <= last; ++i) {
        const FormData_pg_attribute* column = column_of(binding, columns[i]);
        parameters.add(column->atttypid, position.row[i]);
        const char* name = quote_identifier(columns[i].name);
        const char* of_row = psprintf("%s.%s", row_alias, name);
        const char* parameter = psprintf("$%d", parameters.n);
        appendStringInfo(out, " AND %s",
                         i < last                ? same_values(column->atttypid, of_row, parameter)
                         : columns[i].descending ? greater_value(column->atttypid, parameter, of_row)
                                                 : greater_value(column->atttypid, of_row, parameter));
    }
}

struct KnownOwner {
    Datum owner;
    TimestampTz mark;  // no lease of this owner that ends earlier was found
    TimestampTz next;  // its earliest lease at the time of the full scan
};

struct KnownOwners {
    TimestampTz read_at;    // if the clock is behind this it was set back, and the rest is ignored
    TimestampTz all_again;  // when the whole index is read again
    int n;
    KnownOwner owners[FLEXIBLE_ARRAY_MEMBER];
};

namespace {

Datum lasting_owner(const Managed& managed, Datum owner) {
    int16 length;
    bool by_value;
    get_typlenbyval(managed.owner.type, &length, &by_value);
    return datumCopy(owner, by_value, length);
}

RowOwner owner_from(const Managed& managed, HeapTuple row) {
    bool null;
    RowOwner owner;
    owner.owner = lasting_owner(managed, SPI_getbinval(row, SPI_tuptable->tupdesc, 1, &null));
    owner.lease = DatumGetTimestampTz(SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &null));
    owner.has_lease = !null;
    return owner;
}

// "SELECT owner, lease FROM table WHERE owner"; the comparison follows.
const char* select_owner(const Target& target) {
    const Managed& managed = *target.binding->managed;
    const char* owner = column_name(managed.owner);
    return psprintf("SELECT %s AS owner, %s AS lease FROM %s AS %s WHERE %s", owner, column_name(managed.lease),
                    target.table, row_alias, owner);
}

// Takes one step of the index for each owner, because the index is ordered by owner and lease.
RowOwners read_all(const Target& target) {
    const Managed& managed = *target.binding->managed;
    const char* next = select_owner(target);
    const char* first = psprintf("ORDER BY %s, %s LIMIT 1", column_name(managed.owner), column_name(managed.lease));
    const char* query = psprintf(
        "WITH RECURSIVE h AS ((%s IS NOT NULL %s) UNION ALL SELECT n.owner, n.lease FROM h CROSS JOIN LATERAL "
        "(%s %s h.owner %s) n) SELECT owner, lease FROM h",
        next, first, next, greater_than(managed.owner.type), first);
    const int n = static_cast<int>(run_planned(*target.binding, query, Parameters{}, Order::of_leases));
    RowOwners found = {static_cast<RowOwner*>(palloc(sizeof(RowOwner) * Max(n, 1))), n, DT_NOEND, false};
    for (int i = 0; i < n; ++i) found.items[i] = owner_from(managed, SPI_tuptable->vals[i]);
    return found;
}

// A lease that is acquired later ends later than now, unless the clock or the column is set back.
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
    auto* known = static_cast<KnownOwners*>(palloc(offsetof(KnownOwners, owners) + sizeof(KnownOwner) * found.n));
    known->read_at = scan.begun;
    known->all_again = again;
    known->n = found.n;
    for (int i = 0; i < found.n; ++i)
        known->owners[i] = {lasting_owner(*binding.managed, found.items[i].owner), mark_of(found.items[i], scan.begun),
                            found.items[i].has_lease ? found.items[i].lease : 0};
    binding.known_owners = known;
    MemoryContextSwitchTo(caller);
}

// The owner's earliest lease that has expired by then; else its earliest known lease.
RowOwner read_on(const Target& target, const KnownOwner& known, TimestampTz until) {
    const Managed& managed = *target.binding->managed;
    const char* lease = column_name(managed.lease);
    Parameters parameters = {};
    parameters.add(managed.owner.type, known.owner);
    parameters.add(TIMESTAMPTZOID, TimestampTzGetDatum(known.mark));
    parameters.add(TIMESTAMPTZOID, TimestampTzGetDatum(until));
    const char* query =
        psprintf("%s %s $1 AND %s OPERATOR(pg_catalog.>=) $2 AND %s OPERATOR(pg_catalog.<) $3 ORDER BY %s, %s LIMIT 1",
                 select_owner(target), equality(managed.owner.type), lease, lease, column_name(managed.owner), lease);
    if (run_planned(*target.binding, query, parameters, Order::of_leases) == 0)
        return {known.owner, known.next, known.next >= until};
    return owner_from(managed, SPI_tuptable->vals[0]);
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
    require_select(target);
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
