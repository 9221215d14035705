// May ereport; owns nothing. See managed_columns.hpp.
#include "guard/managed_columns.hpp"

#include "catalog/backoff.hpp"
#include "events/wake.hpp"
#include "guard/rejection.hpp"
#include "pg/sqlstate.hpp"
#include "session/observer.hpp"

namespace pawl {

const Interval longest_lease = {0, 0, 12 * 100};

namespace {

using Value = ColumnValue;

Value value_in(TupleTableSlot* row, const ManagedColumn& column) {
    return column.kept() ? stored_value(row, column.attribute) : Value{static_cast<Datum>(0), true};
}

bool differs(const Statement& statement, const ManagedColumn& column) {
    return column.kept() && !same_value(statement.before, column.attribute, value_in(statement.before, column),
                                        value_in(statement.after, column));
}

// Whether the statement sets the column, or a trigger of the table has changed it.
bool sets(const Statement& statement, const ManagedColumn& column) {
    return column.kept() && (bms_is_member(column.attribute - FirstLowInvalidHeapAttributeNumber, statement.updated) ||
                             differs(statement, column));
}

void put(ColumnChanges* changes, const ManagedColumn& column, Datum value, bool null = false) {
    if (column.kept()) put_column(changes, column.attribute, value, null);
}

void put_null(ColumnChanges* changes, const ManagedColumn& column) {
    put(changes, column, static_cast<Datum>(0), true);
}

// Sets the column to number + more.
void put_number(ColumnChanges* changes, const ManagedColumn& column, int64 number, int more = 0) {
    if (!column.kept()) return;
    const Oid type = column.base;
    const int64 limit = type == INT2OID ? PG_INT16_MAX : type == INT4OID ? PG_INT32_MAX : PG_INT64_MAX;
    if (number > limit - more)  // an inserted row can have such a value
        ereport(ERROR,
                (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
                 errmsg("column \"%s\" cannot exceed " INT64_FORMAT, NameStr(column.name), limit),
                 errhint("ALTER TABLE ... ALTER COLUMN %s TYPE bigint;", quote_identifier(NameStr(column.name)))));
    number += more;
    put(changes, column,
        type == INT2OID   ? Int16GetDatum(static_cast<int16>(number))
        : type == INT4OID ? Int32GetDatum(static_cast<int32>(number))
                          : Int64GetDatum(number));
}

Datum later(TimestampTz now, const Interval* by) {
    return DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(now), IntervalPGetDatum(by));
}

// A lease that a statement writes is checked like one that is an argument.
void check_lease(const Binding& binding, TupleTableSlot* row) {
    const ManagedColumn& column = binding.managed->lease;
    const Value lease = value_in(row, column);
    if (lease.null ||
        DatumGetTimestampTz(lease.datum) <= DatumGetTimestampTz(later(GetCurrentTimestamp(), &longest_lease)))
        return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("a lease must end within 100 years"),
                    errdetail("%s is given %s in column \"%s\".", describe_row(binding, row),
                              timestamptz_to_str(DatumGetTimestampTz(lease.datum)), NameStr(column.name)),
                    errhint("SET %s = pg_catalog.now() + '60 s'", quote_identifier(NameStr(column.name)))));
}

Datum lease_of(const Ownership& ownership, const Statement* statement, const Intent* intent) {
    const Managed& managed = *ownership.managed;
    if (intent != nullptr && intent->lease != nullptr) return later(ownership.now, intent->lease);
    if (statement != nullptr && sets(*statement, managed.lease)) {
        const Value given = value_in(statement->after, managed.lease);
        if (!given.null) return given.datum;
    }
    return later(ownership.now, &managed.lease_time);
}

void leave(const Ownership& ownership, bool fenced, ColumnChanges* changes) {
    const Managed& managed = *ownership.managed;
    put_null(changes, managed.owner);
    put_null(changes, managed.lease);
    put_number(changes, managed.token, ownership.token, fenced ? 1 : 0);
}

void take(const Ownership& ownership, Datum lease, ColumnChanges* changes) {
    const Managed& managed = *ownership.managed;
    put(changes, managed.owner, owner_value(managed, ownership.actor.name));
    put(changes, managed.lease, lease);
    put_number(changes, managed.token, ownership.token, 1);
}

// A timer leads to another owned state: the owner stays, whichever session fires the timer.
void stay_owned(const Ownership& ownership, ColumnChanges* changes) {
    const Managed& managed = *ownership.managed;
    put(changes, managed.owner, ownership.owner);
    put(changes, managed.lease, TimestampTzGetDatum(ownership.lease), !ownership.has_lease);
    put_number(changes, managed.token, ownership.token);
}

// The owner keeps the row, in another owned state or in the same one.
void go_on(const Ownership& ownership, const Statement& statement, const Intent* intent, ColumnChanges* changes) {
    const Managed& managed = *ownership.managed;
    put(changes, managed.owner, ownership.owner);
    put_number(changes, managed.token, ownership.token);
    if (sets(statement, managed.lease) || (intent != nullptr && intent->lease != nullptr))
        put(changes, managed.lease, lease_of(ownership, &statement, intent));
    else
        put(changes, managed.lease, TimestampTzGetDatum(ownership.lease), !ownership.has_lease);
}

void keep_owner(const Binding& binding, const Ownership& ownership, int transition, const Statement& statement,
                const Intent* intent, ColumnChanges* changes) {
    const Managed& managed = *ownership.managed;
    if (!managed.owner.kept()) return;
    const core::Transition& drawn = binding.machine->machine->transitions()[transition];
    const bool fenced = takes_away(binding, ownership, transition);
    const bool expired = (managed.roles[transition] & role_expires) != 0;  // or its owner has given it up
    if (!managed.owned[drawn.to] || expired) return leave(ownership, fenced, changes);
    if (ownership.is_owner) return go_on(ownership, statement, intent, changes);
    if (ownership.has_owner && !fenced) return stay_owned(ownership, changes);
    if (ownership.actor.name == nullptr)
        reject_ownership(binding, statement.before, ownership, OwnershipFault::no_processor,
                         describe_move(binding.machine->state_text[drawn.from], binding.machine->state_text[drawn.to]));
    take(ownership, lease_of(ownership, &statement, intent), changes);
}

void count_attempt(const Binding& binding, const Ownership& ownership, int transition, const Statement& statement,
                   ColumnChanges* changes) {
    const Managed& managed = *ownership.managed;
    const core::Transition& drawn = binding.machine->machine->transitions()[transition];
    if (!managed.attempts.kept() || managed.owned[drawn.from] || !managed.owned[drawn.to] ||
        differs(statement, managed.attempts))
        return;
    put_number(changes, managed.attempts, ownership.attempts, 1);
}

std::optional<core::Delay> asked_delay() {
    const Interval* asked = delay_setting();
    if (asked == nullptr) return std::nullopt;
    return delay_of(asked, "pawl.delay");
}

// A due time in the past is cleared, unless the state has a timer to be fired.
void put_due(const Managed& managed, core::StateId state, Datum due, TimestampTz now, ColumnChanges* changes) {
    if (managed.shortest_after[state] == nullptr && DatumGetTimestampTz(due) <= now)
        return put_null(changes, managed.due);
    put(changes, managed.due, due);
}

void keep_due(const Binding& binding, const Ownership& ownership, int transition, const Statement& statement,
              ColumnChanges* changes) {
    const Managed& managed = *ownership.managed;
    if (!managed.due.kept()) return;
    const core::StateId to = binding.machine->machine->transitions()[transition].to;
    // A statement that writes back the old value, as one does that writes whole rows, does not set the timer.
    if (differs(statement, managed.due)) {
        const Value given = value_in(statement.after, managed.due);
        if (!given.null) put_due(managed, to, given.datum, ownership.moved, changes);
    } else if ((managed.roles[transition] & role_retries) != 0) {
        const Value own = value_in(statement.before, managed.backoff_policy);
        const core::BackoffPolicy policy = own.null ? managed.backoff : read_backoff(DatumGetJsonbP(own.datum));
        const core::Delay delay = next_delay(policy, ownership.attempts, asked_delay());
        put_due(managed, to, TimestampTzGetDatum(ownership.moved + delay.count()), ownership.moved, changes);
    } else if (const Interval* after = managed.shortest_after[to]) {
        put(changes, managed.due, later(ownership.moved, after));
    } else {
        put_null(changes, managed.due);
    }
}

[[noreturn]] void reject_change(const Binding& binding, TupleTableSlot* row, const ManagedColumn& column,
                                const char* hint) {
    raise(binding,
          {rejected(sqlstate::not_the_owner, binding.machine->name),
           psprintf("managed column \"%s\" cannot be changed by this statement", NameStr(column.name)),
           psprintf("%s: the column changes when the row enters or leaves an owned state.", describe_row(binding, row)),
           hint});
}

// The statement sets the owner of a row without one, in an owned state.
void take_still(const Binding& binding, const Ownership& ownership, core::StateId state, const Statement& statement,
                ColumnChanges* changes) {
    const Managed& managed = *ownership.managed;
    const Value owner = value_in(statement.after, managed.owner);
    const bool ownable = state != core::no_state && managed.owned[state];
    if (ownership.has_owner || owner.null || !ownable)
        reject_change(binding, statement.before, managed.owner,
                      ownable ? "The row has an owner: wait until its lease expires, then call pawl.reap."
                              : "Use an event that leads to an owned state.");
    if (ownership.claim == OwnershipFault::stale_token)
        reject_ownership(binding, statement.before, ownership, ownership.claim, "claiming the row");
    take(ownership, lease_of(ownership, &statement, nullptr), changes);
}

void extend_still(const Binding& binding, const Ownership& ownership, const Statement& statement) {
    if (!ownership.has_owner)
        reject_change(binding, statement.before, ownership.managed->lease, "Only a row with an owner has a lease.");
    if (ownership.claim != OwnershipFault::none)
        reject_ownership(binding, statement.before, ownership, ownership.claim, "extending the lease");
    if (value_in(statement.after, ownership.managed->lease).null)
        reject_change(binding, statement.before, ownership.managed->lease,
                      "Set it to the time when the lease expires.");
}

bool shows_token(const Intent* intent) {
    int64 token;
    return (intent != nullptr && intent->has_token) || token_setting(&token);
}

}  // namespace

void copy_columns(const Binding& binding, TupleTableSlot* before, ColumnChanges* changes) {
    const Managed& managed = *binding.managed;
    for (const ManagedColumn* column :
         {&managed.owner, &managed.lease, &managed.token, &managed.due, &managed.attempts}) {
        const Value value = value_in(before, *column);
        put(changes, *column, value.datum, value.null);
    }
}

void carry_columns(const Binding& binding, const Statement& statement, TupleTableSlot* before, ColumnChanges* changes) {
    const Managed& managed = *binding.managed;
    for (const ManagedColumn* column :
         {&managed.owner, &managed.lease, &managed.token, &managed.due, &managed.attempts}) {
        if (!column->kept() || differs(statement, *column)) continue;
        const Value value = value_in(before, *column);
        if (!same_value(statement.after, column->attribute, value, value_in(statement.after, *column)))
            put(changes, *column, value.datum, value.null);
    }
}

Actor actor_in(const Managed& managed, const Statement& statement) {
    Actor said = {};
    const Value owner = value_in(statement.after, managed.owner);
    if (!owner.null && sets(statement, managed.owner)) {
        said.name = owner_text(managed, owner.datum);
        said.takes = true;
    }
    const Value token = value_in(statement.after, managed.token);
    if (!token.null && sets(statement, managed.token)) {
        said.has_token = true;
        said.token = managed_number(managed.token, token.datum);
    }
    return said;
}

void set_for_transition(const Binding& binding, const Ownership& ownership, int transition, const Statement& statement,
                        const Intent* intent, ColumnChanges* changes) {
    if (differs(statement, binding.managed->lease)) check_lease(binding, statement.after);
    keep_owner(binding, ownership, transition, statement, intent, changes);
    count_attempt(binding, ownership, transition, statement, changes);
    keep_due(binding, ownership, transition, statement, changes);
}

void set_for_remap(const Binding& binding, core::StateId to, const Statement& statement, const Intent* intent,
                   ColumnChanges* changes) {
    const Managed& managed = *binding.managed;
    Ownership ownership = ownership_of(binding, statement.before, {});
    if (!managed.owned[to]) {
        leave(ownership, ownership.has_owner, changes);
    } else if (intent->placement != nullptr && managed.owner.kept()) {
        ownership.actor.name = intent->processor;
        take(ownership, lease_of(ownership, nullptr, intent), changes);
    }
    const Interval* after = managed.shortest_after[to];
    put(changes, managed.due, after == nullptr ? static_cast<Datum>(0) : later(ownership.now, after), after == nullptr);
}

void set_without_transition(const Binding& binding, core::StateId state, const Statement& statement,
                            const Intent* intent, ColumnChanges* changes) {
    const Managed& managed = *binding.managed;
    const bool owner = differs(statement, managed.owner), token = differs(statement, managed.token),
               lease = differs(statement, managed.lease);
    if (lease) check_lease(binding, statement.after);
    // A stale token is rejected also without a state change: a late result must not overwrite that of the new owner.
    if (owner || token || lease || (managed.token.kept() && shows_token(intent))) {
        const Ownership ownership =
            ownership_of(binding, statement.before, acting(intent, actor_in(managed, statement)));
        if (owner)
            take_still(binding, ownership, state, statement, changes);
        else if (token || ownership.claim == OwnershipFault::stale_token)
            reject_ownership(binding, statement.before, ownership, OwnershipFault::stale_token, "the write");
        else if (lease)
            extend_still(binding, ownership, statement);
    }
    if (state != core::no_state && differs(statement, managed.due)) {
        const Value due = value_in(statement.after, managed.due);
        if (!due.null)
            put_due(managed, state, due.datum, GetCurrentTimestamp(), changes);
        else if (binding.wake && binding.claimable[state])
            note_wake(binding.root);
    }
}

void set_for_new_row(const Binding& binding, core::StateId state, TupleTableSlot* row, ColumnChanges* changes) {
    const Managed& managed = *binding.managed;
    if (state == core::no_state) return;
    const TimestampTz now = GetCurrentTimestamp();
    if (managed.due.kept()) {
        const Value due = value_in(row, managed.due);
        if (!due.null)
            put_due(managed, state, due.datum, now, changes);
        else if (managed.shortest_after[state] != nullptr)
            put(changes, managed.due, later(now, managed.shortest_after[state]));
    }
    if (!managed.owner.kept() || !managed.owned[state]) return;
    if (value_in(row, managed.owner).null) {
        const text* processor = processor_setting();
        if (processor == nullptr) return;
        put(changes, managed.owner, owner_value(managed, processor));
    }
    if (value_in(row, managed.lease).null) put(changes, managed.lease, later(now, &managed.lease_time));
    const Value token = value_in(row, managed.token);
    if (token.null || managed_number(managed.token, token.datum) < 1) put_number(changes, managed.token, 1);
}

void check_new_row(const Binding& binding, core::StateId state, TupleTableSlot* row) {
    const Managed& managed = *binding.managed;
    if (state == core::no_state || !managed.owner.kept()) return;
    const char* name = quoted_state(binding.machine->state_text[state]);
    if (managed.owned[state]) {
        if (!value_in(row, managed.owner).null) return check_lease(binding, row);
        raise(binding,
              {rejected(sqlstate::not_the_owner, binding.machine->name), psprintf("state %s needs an owner", name),
               psprintf("%s is inserted without an owner, and no processor is set.", describe_row(binding, row)),
               psprintf("SET pawl.processor = 'name of the worker'; or set column %s.",
                        quote_identifier(NameStr(managed.owner.name)))});
    }
    for (const ManagedColumn* column : {&managed.owner, &managed.lease}) {
        if (value_in(row, *column).null) continue;
        raise(binding,
              {rejected(sqlstate::not_the_owner, binding.machine->name), psprintf("state %s cannot be owned", name),
               psprintf("%s is inserted with a value in column \"%s\".", describe_row(binding, row),
                        NameStr(column->name)),
               "Insert the row without the value, then claim it with pawl.claim."});
    }
}

int64 token_after(const Binding& binding, TupleTableSlot* row, const ColumnChanges* changes) {
    if (binding.managed == nullptr || !binding.managed->token.kept()) return -1;
    const ManagedColumn& token = binding.managed->token;
    for (int i = changes == nullptr ? 0 : changes->n; i > 0; --i)
        if (changes->columns[i - 1] == token.attribute)
            return changes->nulls[i - 1] ? -1 : managed_number(token, changes->values[i - 1]);
    const Value value = value_in(row, token);
    return value.null ? -1 : managed_number(token, value.datum);
}

bool waits_for_time(const Binding& binding, TupleTableSlot* row, const ColumnChanges* changes) {
    if (binding.managed == nullptr || !binding.managed->due.kept()) return false;
    const ManagedColumn& due = binding.managed->due;
    for (int i = changes == nullptr ? 0 : changes->n; i > 0; --i)
        if (changes->columns[i - 1] == due.attribute) return !changes->nulls[i - 1];
    return !value_in(row, due).null;
}

}  // namespace pawl
