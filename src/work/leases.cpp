// May throw and may ereport: pawl.heartbeat, pawl.abandon and pawl.reap, which extend leases, give rows up, and return
// rows with expired leases to the queue.
#include "fire/lock_order.hpp"
#include "pg/sqlstate.hpp"
#include "work/duty.hpp"
#include "work/scan_position.hpp"
#include "work/trial.hpp"

namespace pawl {

namespace {

void require_leases(const Target& target) {
    if (!target.binding->managed->lease.kept()) no_such_work(target, "no leases", "pawl.enable_queue", "lease");
}

void add_owner(const Managed& managed, Parameters& parameters, Datum owner) {
    parameters.add(managed.owner.type, owner);
}

// The rows of a processor whose lease has not expired at a time. Rows locked by another transaction are skipped.
Batch pick_held(const Target& target, text* processor, TimestampTz now) {
    const Managed& managed = *target.binding->managed;
    Parameters parameters = {};
    add_owner(managed, parameters, owner_value(managed, processor));
    parameters.add(TIMESTAMPTZOID, TimestampTzGetDatum(now));
    return pick_rows(target,
                     psprintf("WHERE %s AND %s OPERATOR(pg_catalog.>=) $2 FOR NO KEY UPDATE SKIP LOCKED",
                              column_equals(managed.owner, 1), column_name(managed.lease)),
                     parameters, Order::of_leases);
}

// The rows whose lease ends before a time: a heartbeat never makes a lease shorter.
Batch ending_before(const Target& target, const Batch& held, TimestampTz until) {
    Batch some = {static_cast<FoundRow*>(palloc(sizeof(FoundRow) * Max(held.n, 1))), 0};
    for (int i = 0; i < held.n; ++i) {
        bool null;
        if (DatumGetTimestampTz(slot_getattr(held.rows[i].slot, target.binding->managed->lease.attribute, &null)) <
            until)
            some.rows[some.n++] = held.rows[i];
    }
    return some;
}

// All rows of a processor, locked in the order of their keys, as everywhere where locks are waited for. The rows that
// pawl.set_lock_order puts before them were locked earlier. A row that the processor claims meanwhile is skipped if its
// earlier row is locked by another transaction.
Batch pick_owned(const Target& target, text* processor) {
    const Managed& managed = *target.binding->managed;
    Parameters parameters = {};
    add_owner(managed, parameters, owner_value(managed, processor));
    const char* held = column_equals(managed.owner, 1);
    lock_before_rows(target, held, parameters);
    return pick_rows(target,
                     psprintf("%s WHERE %s ORDER BY %s FOR NO KEY UPDATE OF %s", lock_first(*target.binding), held,
                              order_by_key(*target.binding), row_alias),
                     parameters, Order::sorted);
}

// The event given, or the one that an expired lease fires.
text* expiry_event(FunctionCallInfo fcinfo, int n, const Target& target) {
    if (!PG_ARGISNULL(n)) {
        text* event = pg::text_argument(fcinfo, n);
        if (target.binding->machine->machine->knows_event(view(event))) return event;
        throw pg::Failure(sqlstate::unknown_object, "machine \"" + std::string(target.binding->machine->name) +
                                                        "\" has no event \"" + std::string(view(event)) + "\"");
    }
    text* event = target.binding->managed->expiry_event;
    if (event == nullptr) no_such_work(target, "no event for expired leases", "pawl.set_claiming", "on_expiry");
    return event;
}

// The rows of an owner from its earliest lease on, in states that an expiry event leaves.
const char* held_by(const Target& target, const RowOwner& owner, Parameters& parameters) {
    const Managed& managed = *target.binding->managed;
    add_owner(managed, parameters, owner.owner);
    parameters.add(TIMESTAMPTZOID, TimestampTzGetDatum(owner.lease));
    return psprintf("%s AND %s OPERATOR(pg_catalog.>=) $2 AND %s", column_equals(managed.owner, 1),
                    column_name(managed.lease), state_condition(*target.binding, role_expires, nullptr));
}

// Rows with an expired lease, the earliest first, after the first `skip`.
Batch pick_expired(const Target& target, const RowOwner& owner, int most, int skip) {
    const Managed& managed = *target.binding->managed;
    const char* lease = column_name(managed.lease);
    Parameters parameters = {};
    const char* held = held_by(target, owner, parameters);
    parameters.add(TIMESTAMPTZOID, TimestampTzGetDatum(GetCurrentTimestamp()));
    parameters.add(INT8OID, Int64GetDatum(most));
    parameters.add(INT8OID, Int64GetDatum(skip));
    return pick_rows(target,
                     psprintf("%s WHERE %s AND %s OPERATOR(pg_catalog.<) $3 ORDER BY %s, %s LIMIT $4 OFFSET $5 FOR NO "
                              "KEY UPDATE OF %s SKIP LOCKED",
                              lock_first(*target.binding), held, lease, column_name(managed.owner), lease, row_alias),
                     parameters, Order::of_leases);
}

// When the next lease of the owner that can expire ends. Only leases that end before `before` count.
TimestampTz next_lease(const Target& target, const RowOwner& owner, TimestampTz before) {
    const Managed& managed = *target.binding->managed;
    const char* lease = column_name(managed.lease);
    Parameters parameters = {};
    const char* held = held_by(target, owner, parameters);
    parameters.add(TIMESTAMPTZOID, TimestampTzGetDatum(before));
    const char* query =
        psprintf("SELECT %s FROM %s AS %s WHERE %s AND %s OPERATOR(pg_catalog.<) $3 ORDER BY %s, %s LIMIT 1", lease,
                 target.table, row_alias, held, lease, column_name(managed.owner), lease);
    if (run_planned(*target.binding, query, parameters, Order::of_leases) == 0) return DT_NOEND;
    bool null;
    return DatumGetTimestampTz(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &null));
}

// Moves all rows by `event`. Rows that it leads nowhere move by `otherwise`; null: they stay.
int64 move_all(const Target& target, const Batch& batch, const text* event, const text* otherwise, Intent& intent) {
    intent.at = GetCurrentTimestamp();
    Step* steps = lead(target, batch, event, intent);
    for (int i = 0; otherwise != nullptr && i < batch.n; ++i)
        if (steps[i].to == core::no_state)
            steps[i] = {look_for_destination(target, otherwise, batch.rows[i], &intent, true).to, otherwise, nullptr};
    return take_steps(target, batch, steps, intent);
}

// How rows lose their owner.
struct Losing {
    const Target* target;
    const text* event;
    const text* otherwise;
    Intent* intent;

    int64 move(const Batch& batch) const { return move_all(*target, batch, event, otherwise, *intent); }
    static int64 see_to(const Batch& batch, void* argument) { return static_cast<Losing*>(argument)->move(batch); }
};

// Fires the expiry event for at most so many rows of an owner. Rows that guards keep in their state, and with `raising`
// rows that raise errors, do not hide those behind them.
int64 reap_owner(Losing& losing, const RowOwner& owner, int64 most, Raising* raising) {
    int64 reaped = 0;
    int kept = 0;
    while (reaped < most && kept < most_rows && (raising == nullptr || raising->n < Raising::most)) {
        const int asked = static_cast<int>(most - reaped);
        const Batch expired = pick_expired(*losing.target, owner, asked, kept);
        const int64 moved = raising == nullptr
                                ? losing.move(expired)
                                : see_to_apart(*losing.target, expired, Losing::see_to, &losing, *raising);
        reaped += moved;
        kept += expired.n - static_cast<int>(moved);
        if (expired.n < asked) break;
    }
    return reaped;
}

int64 reap_all(Losing& losing, const RowOwners& owners, TimestampTz now, int64 most, Raising* raising) {
    int64 reaped = 0;
    for (int i = 0; i < owners.n; ++i)
        if (owners.items[i].has_lease && owners.items[i].lease < now)
            reaped += reap_owner(losing, owners.items[i], most - reaped, raising);
    return reaped;
}

using OnTable = Datum (*)(FunctionCallInfo fcinfo, const Target& target);

// The sum over the tables of this node that have rows of the table.
Datum on_each_table(FunctionCallInfo fcinfo, int column_argument, OnTable function) {
    pg::require(fcinfo, 0, "relation");
    const char* column = pg::name_argument(fcinfo, column_argument);
    const Target target = open_work(PG_GETARG_OID(0), column);
    if (!target.binding->distributed) return function(fcinfo, target);
    int64 sum = 0;
    const List* tables = pg::call([&] { return tables_here(target); });
    for (int i = 0; i < list_length(tables); ++i)
        sum += DatumGetInt64(function(fcinfo, open_work(list_nth_oid(tables, i), column)));
    pg::call([&] { close_target(target); });
    return Int64GetDatum(sum);
}

Datum heartbeat(FunctionCallInfo fcinfo, const Target& opened) {
    Target target = opened;
    require_leases(target);
    target.written = target.binding->managed->lease.attribute;
    text* processor = processor_argument(fcinfo, 1);
    const Interval* lease = lease_argument(fcinfo, 2);
    Intent intent = work_intent(target, processor);
    IntentScope scope(intent);
    return pg::call([&] {
        SPI_connect();
        const Managed& managed = *target.binding->managed;
        // one time for all: a lease that expires meanwhile must not make the others fail
        intent.at = GetCurrentTimestamp();
        const Batch held = pick_held(target, processor, intent.at);
        // they may have been waited for
        const Datum until = DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(GetCurrentTimestamp()),
                                                IntervalPGetDatum(lease == nullptr ? &managed.lease_time : lease));
        const Batch ending = ending_before(target, held, DatumGetTimestampTz(until));
        const int64 extended = set_column(target, ending, managed.lease, until, false, intent);
        SPI_finish();
        close_target(target);
        return Int64GetDatum(held.n - ending.n + extended);
    });
}

Datum abandon(FunctionCallInfo fcinfo, const Target& target) {
    text* processor = processor_argument(fcinfo, 1);
    const text* event = expiry_event(fcinfo, 2, target);
    const text* otherwise = PG_ARGISNULL(2) ? target.binding->managed->expiry_else : nullptr;
    Intent intent = work_intent(target, processor);
    if (!PG_ARGISNULL(3)) {
        intent.with_metadata = true;
        intent.metadata = pg::call([&] { return PG_GETARG_JSONB_P(3); });
    }
    IntentScope scope(intent);
    return pg::call([&] {
        SPI_connect();
        Losing losing = {&target, event, otherwise, &intent};
        Raising raising;
        int64 given_up = 0;
        if (ErrorData* error = try_alone([&] { given_up = losing.move(pick_owned(target, processor)); })) {
            raise_unless_of_row(target, error);
            given_up = see_to_apart(target, pick_owned(target, processor), Losing::see_to, &losing, raising);
            tell_of_more(target, raising);
        }
        SPI_finish();
        close_target(target);
        return Int64GetDatum(given_up);
    });
}

bool any_lost(const RowOwners& owners, TimestampTz now) {
    for (int i = 0; i < owners.n; ++i)
        if (owners.items[i].has_lease && owners.items[i].lease < now) return true;
    return false;
}

DutyResult reap(Oid relation, const char* column, int most) {
    const Target target = open_work(relation, column);
    require_leases(target);
    const text* event = target.binding->managed->expiry_event;
    if (event == nullptr) no_such_work(target, "no event for expired leases", "pawl.set_claiming", "on_expiry");
    Intent intent = work_intent(target, pg::call([] { return processor_setting(); }));
    IntentScope scope(intent);
    return pg::call([&] {
        SPI_connect();
        const RowOwners owners = find_owners(target);
        const TimestampTz now = GetCurrentTimestamp();
        Losing losing = {&target, event, target.binding->managed->expiry_else, &intent};
        Raising raising;
        DutyResult total = {0, owners.complete_again};
        if (any_lost(owners, now)) {
            if (ErrorData* error = try_alone([&] { total.done = reap_all(losing, owners, now, most, nullptr); })) {
                raise_unless_of_row(target, error);
                total.done = reap_all(losing, owners, now, most, &raising);
                tell_of_more(target, raising);
            }
        }
        for (int i = 0; i < owners.n; ++i) {
            const RowOwner& owner = owners.items[i];
            if (!owner.has_lease) continue;
            total.next =
                Min(total.next,
                    owner.lease < now ? next_lease(target, owner, owners.remembered ? now : DT_NOEND) : owner.lease);
        }
        if (total.done < most) total.next = raising.next(total.next);
        SPI_finish();
        close_target(target);
        return total;
    });
}

}  // namespace

PAWL_FUNCTION(pawl_heartbeat) {
    return on_each_table(fcinfo, 3, heartbeat);
}

PAWL_FUNCTION(pawl_abandon) {
    return on_each_table(fcinfo, 4, abandon);
}

PAWL_FUNCTION(pawl_reap) {
    return run_duty(fcinfo, reap,
                    "b.on_expiry IS NOT NULL AND b.lease_column IS NOT NULL AND b.owner_column IS NOT NULL");
}

}  // namespace pawl
