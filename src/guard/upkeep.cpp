// May ereport; owns nothing. See upkeep.hpp.
#include "guard/upkeep.hpp"

#include "catalog/backoff.hpp"
#include "session/observer.hpp"
#include "pg/sqlstate.hpp"
#include "guard/refusal.hpp"
#include "events/wake.hpp"

namespace pawl {

namespace {

struct Value {
    Datum datum;
    bool null;
};

Value value_in(TupleTableSlot* row, const ManagedColumn& column) {
    Value value = {static_cast<Datum>(0), true};
    if (column.kept()) value.datum = slot_getattr(row, column.attribute, &value.null);
    return value;
}

bool same_value(const ManagedColumn& column, Value one, Value other) {
    if (one.null || other.null) return one.null == other.null;
    int16 length;
    bool by_value;
    get_typlenbyval(column.type, &length, &by_value);
    return datum_image_eq(one.datum, other.datum, by_value, length);
}

bool differs(const Statement& statement, const ManagedColumn& column) {
    return column.kept() && !same_value(column, value_in(statement.before, column), value_in(statement.after, column));
}

// Whether the statement names the column, or a trigger of the table changed it.
bool sets(const Statement& statement, const ManagedColumn& column) {
    return column.kept() && (bms_is_member(column.attribute - FirstLowInvalidHeapAttributeNumber, statement.updated) || differs(statement, column));
}

// A table may carry any number of lifecycles, each with columns of its own.
void make_room(ColumnChanges* changes) {
    if (changes->n < changes->room) return;
    const int room = changes->room + 16;
    auto* columns = static_cast<int*>(palloc(sizeof(int) * room));
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * room));
    auto* nulls = static_cast<bool*>(palloc(sizeof(bool) * room));
    if (changes->n > 0) {
        memcpy(columns, changes->columns, sizeof(int) * changes->n);
        memcpy(values, changes->values, sizeof(Datum) * changes->n);
        memcpy(nulls, changes->nulls, sizeof(bool) * changes->n);
    }
    *changes = {changes->n, room, columns, values, nulls};
}

void put(ColumnChanges* changes, const ManagedColumn& column, Datum value, bool null = false) {
    if (!column.kept()) return;
    make_room(changes);
    changes->columns[changes->n] = column.attribute;
    changes->values[changes->n] = value;
    changes->nulls[changes->n] = null;
    ++changes->n;
}

void put_null(ColumnChanges* changes, const ManagedColumn& column) { put(changes, column, static_cast<Datum>(0), true); }

// `number` and so many more.
void put_number(ColumnChanges* changes, const ManagedColumn& column, int64 number, int more = 0) {
    if (!column.kept()) return;
    const Oid type = column.base;
    const int64 limit = type == INT2OID ? PG_INT16_MAX : type == INT4OID ? PG_INT32_MAX : PG_INT64_MAX;
    if (number > limit - more)  // nobody counts to the end, but anybody may insert a row that is there
        ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE), errmsg("column \"%s\" cannot count beyond " INT64_FORMAT, NameStr(column.name), limit),
                        errhint("ALTER TABLE ... ALTER COLUMN %s TYPE bigint;", quote_identifier(NameStr(column.name)))));
    number += more;
    put(changes, column, type == INT2OID ? Int16GetDatum(static_cast<int16>(number)) : type == INT4OID ? Int32GetDatum(static_cast<int32>(number))
                                                                                                      : Int64GetDatum(number));
}

Datum later(TimestampTz now, const Interval* by) {
    return DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(now), IntervalPGetDatum(by));
}

Datum lease_of(const Standing& standing, const Statement* statement, const Intent* intent) {
    const Managed& managed = *standing.managed;
    if (intent != nullptr && intent->lease != nullptr) return later(standing.now, intent->lease);
    if (statement != nullptr && sets(*statement, managed.lease)) {
        const Value given = value_in(statement->after, managed.lease);
        if (!given.null) return given.datum;
    }
    return later(standing.now, &managed.lease_time);
}

void leave(const Standing& standing, bool fenced, ColumnChanges* changes) {
    const Managed& managed = *standing.managed;
    put_null(changes, managed.owner);
    put_null(changes, managed.lease);
    put_number(changes, managed.token, standing.token, fenced ? 1 : 0);
}

void take(const Standing& standing, Datum lease, ColumnChanges* changes) {
    const Managed& managed = *standing.managed;
    put(changes, managed.owner, owner_value(managed, standing.actor.name));
    put(changes, managed.lease, lease);
    put_number(changes, managed.token, standing.token, 1);
}

// A timer leads to another state of the owner's, whoever fires it: he stays what he was.
void stay_owned(const Standing& standing, ColumnChanges* changes) {
    const Managed& managed = *standing.managed;
    put(changes, managed.owner, standing.owner);
    put(changes, managed.lease, TimestampTzGetDatum(standing.lease), !standing.has_lease);
    put_number(changes, managed.token, standing.token);
}

// The owner goes on in another state of his, or in the same one.
void go_on(const Standing& standing, const Statement& statement, const Intent* intent, ColumnChanges* changes) {
    const Managed& managed = *standing.managed;
    put(changes, managed.owner, standing.owner);
    put_number(changes, managed.token, standing.token);
    if (sets(statement, managed.lease) || (intent != nullptr && intent->lease != nullptr))
        put(changes, managed.lease, lease_of(standing, &statement, intent));
    else
        put(changes, managed.lease, TimestampTzGetDatum(standing.lease), !standing.has_lease);
}

void keep_owner(const Attachment& attachment, const Standing& standing, int arrow, const Statement& statement, const Intent* intent,
                ColumnChanges* changes) {
    const Managed& managed = *standing.managed;
    if (!managed.owner.kept()) return;
    const core::Arrow& drawn = attachment.machine->machine->arrows()[arrow];
    const bool fenced = takes_away(attachment, standing, arrow);
    const bool lapsed = (managed.roles[arrow] & arrow_lapses) != 0;  // of itself, or because its owner gives it up
    if (!managed.owned[drawn.to] || lapsed) return leave(standing, fenced, changes);
    if (standing.is_owner) return go_on(standing, statement, intent, changes);
    if (standing.has_owner && !fenced) return stay_owned(standing, changes);
    if (standing.actor.name == nullptr)
        refuse_bar(attachment, statement.before, standing, Bar::nobody,
                   describe_move(attachment.machine->state_text[drawn.from], attachment.machine->state_text[drawn.to]));
    take(standing, lease_of(standing, &statement, intent), changes);
}

void count_attempt(const Attachment& attachment, const Standing& standing, int arrow, const Statement& statement, ColumnChanges* changes) {
    const Managed& managed = *standing.managed;
    const core::Arrow& drawn = attachment.machine->machine->arrows()[arrow];
    if (!managed.attempts.kept() || managed.owned[drawn.from] || !managed.owned[drawn.to] || differs(statement, managed.attempts)) return;
    put_number(changes, managed.attempts, standing.attempts, 1);
}

std::optional<core::Delay> asked_delay() {
    const Interval* asked = delay_setting();
    if (asked == nullptr) return std::nullopt;
    return delay_of(asked, "pawl.delay");
}

// When a timer that was set beforehand lies in the past, the row waits for nothing, unless a timer arrow is to be fired.
void put_due(const Managed& managed, core::StateId state, Datum due, TimestampTz now, ColumnChanges* changes) {
    if (managed.shortest_after[state] == nullptr && DatumGetTimestampTz(due) <= now) return put_null(changes, managed.due);
    put(changes, managed.due, due);
}

void keep_due(const Attachment& attachment, const Standing& standing, int arrow, const Statement& statement, ColumnChanges* changes) {
    const Managed& managed = *standing.managed;
    if (!managed.due.kept()) return;
    const core::StateId to = attachment.machine->machine->arrows()[arrow].to;
    // A statement that writes back what it has read, as those do that write whole rows, says nothing about the timer.
    if (differs(statement, managed.due)) {
        const Value given = value_in(statement.after, managed.due);
        if (!given.null) put_due(managed, to, given.datum, standing.moved, changes);
    } else if ((managed.roles[arrow] & arrow_retries) != 0) {
        const Value own = value_in(statement.before, managed.backoff_policy);
        const core::BackoffPolicy policy = own.null ? managed.backoff : read_backoff(DatumGetJsonbP(own.datum));
        const core::Delay delay = next_delay(policy, standing.attempts, asked_delay());
        put_due(managed, to, TimestampTzGetDatum(standing.moved + delay.count()), standing.moved, changes);
    } else if (const Interval* after = managed.shortest_after[to]) {
        put(changes, managed.due, later(standing.moved, after));
    } else {
        put_null(changes, managed.due);
    }
}

[[noreturn]] void refuse_change(const Attachment& attachment, TupleTableSlot* row, const ManagedColumn& column, const char* hint) {
    ereport(ERROR, (errcode(rejected(sqlstate::not_the_owner, attachment.machine->name)), errmsg("column \"%s\" is kept by pawl", NameStr(column.name)),
                    errdetail("%s: it changes when the row enters or leaves a state that is owned.", describe_subject(attachment, row)),
                    errhint("%s", hint)));
}

// A row that nobody owns is taken where it stands.
void take_still(const Attachment& attachment, const Standing& standing, core::StateId state, const Statement& statement, ColumnChanges* changes) {
    const Managed& managed = *standing.managed;
    const Value owner = value_in(statement.after, managed.owner);
    const bool ownable = state != core::no_state && managed.owned[state];
    if (standing.has_owner || owner.null || !ownable)
        refuse_change(attachment, statement.before, managed.owner,
                      ownable ? "It has an owner: wait for its lease to end, then pawl.reap." : "Move it by an event that leads to an owned state.");
    if (standing.claim == Bar::old_token)
        refuse_bar(attachment, statement.before, standing, standing.claim, "taking the row");
    take(standing, lease_of(standing, &statement, nullptr), changes);
}

void extend_still(const Attachment& attachment, const Standing& standing, const Statement& statement) {
    if (!standing.has_owner) refuse_change(attachment, statement.before, standing.managed->lease, "Only a row with an owner has a lease.");
    if (standing.claim != Bar::none) refuse_bar(attachment, statement.before, standing, standing.claim, "extending the lease");
    if (value_in(statement.after, standing.managed->lease).null)
        refuse_change(attachment, statement.before, standing.managed->lease, "Set it to the time when the lease ends.");
}

bool shows_token(const Intent* intent) {
    int64 token;
    return (intent != nullptr && intent->has_token) || token_setting(&token);
}

}  // namespace

Actor said_by(const Managed& managed, const Statement& statement) {
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

void keep_move(const Attachment& attachment, const Standing& standing, int arrow, const Statement& statement, const Intent* intent,
               ColumnChanges* changes) {
    keep_owner(attachment, standing, arrow, statement, intent, changes);
    count_attempt(attachment, standing, arrow, statement, changes);
    keep_due(attachment, standing, arrow, statement, changes);
}

void keep_remap(const Attachment& attachment, core::StateId to, const Statement& statement, ColumnChanges* changes) {
    const Managed& managed = *attachment.managed;
    const Standing standing = standing_of(attachment, statement.before, {});
    if (!managed.owned[to]) leave(standing, standing.has_owner, changes);
    if (managed.shortest_after[to] != nullptr)
        put(changes, managed.due, later(standing.now, managed.shortest_after[to]));
    else
        put_null(changes, managed.due);
}

void keep_still(const Attachment& attachment, core::StateId state, const Statement& statement, const Intent* intent, ColumnChanges* changes) {
    const Managed& managed = *attachment.managed;
    const bool owner = differs(statement, managed.owner), token = differs(statement, managed.token), lease = differs(statement, managed.lease);
    // Whoever shows a token is refused with an old one also where nothing moves: a late result must not be written over another's.
    if (owner || token || lease || (managed.token.kept() && shows_token(intent))) {
        const Standing standing = standing_of(attachment, statement.before, acting(intent, said_by(managed, statement)));
        if (owner)
            take_still(attachment, standing, state, statement, changes);
        else if (token || standing.claim == Bar::old_token)
            refuse_bar(attachment, statement.before, standing, Bar::old_token, "the write");
        else if (lease)
            extend_still(attachment, standing, statement);
    }
    if (state != core::no_state && differs(statement, managed.due)) {
        const Value due = value_in(statement.after, managed.due);
        if (!due.null)
            put_due(managed, state, due.datum, GetCurrentTimestamp(), changes);
        else if (attachment.wake && attachment.claimable[state])
            note_wake(attachment.root);
    }
}

void keep_first(const Attachment& attachment, core::StateId state, TupleTableSlot* row, ColumnChanges* changes) {
    const Managed& managed = *attachment.managed;
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

void check_first(const Attachment& attachment, core::StateId state, TupleTableSlot* row) {
    const Managed& managed = *attachment.managed;
    if (state == core::no_state || !managed.owner.kept()) return;
    const char* name = quoted_state(attachment.machine->state_text[state]);
    if (managed.owned[state]) {
        if (!value_in(row, managed.owner).null) return;
        ereport(ERROR, (errcode(rejected(sqlstate::not_the_owner, attachment.machine->name)), errmsg("state %s needs an owner", name),
                        errdetail("%s begins there without one, and no processor is named to become it.", describe_subject(attachment, row)),
                        errhint("SET pawl.processor = 'name of the worker'; or give it in column %s.", quote_identifier(NameStr(managed.owner.name)))));
    }
    for (const ManagedColumn* column : {&managed.owner, &managed.lease}) {
        if (value_in(row, *column).null) continue;
        ereport(ERROR, (errcode(rejected(sqlstate::not_the_owner, attachment.machine->name)), errmsg("state %s cannot be owned", name),
                        errdetail("%s begins there with a value in column \"%s\".", describe_subject(attachment, row), NameStr(column->name)),
                        errhint("Insert it without, then take it with pawl.claim.")));
    }
}

int64 token_after(const Attachment& attachment, TupleTableSlot* row, const ColumnChanges* changes) {
    if (attachment.managed == nullptr || !attachment.managed->token.kept()) return -1;
    const ManagedColumn& token = attachment.managed->token;
    for (int i = changes == nullptr ? 0 : changes->n; i > 0; --i)
        if (changes->columns[i - 1] == token.attribute) return changes->nulls[i - 1] ? -1 : managed_number(token, changes->values[i - 1]);
    const Value value = value_in(row, token);
    return value.null ? -1 : managed_number(token, value.datum);
}

bool waits_for_time(const Attachment& attachment, TupleTableSlot* row, const ColumnChanges* changes) {
    if (attachment.managed == nullptr || !attachment.managed->due.kept()) return false;
    const ManagedColumn& due = attachment.managed->due;
    for (int i = changes == nullptr ? 0 : changes->n; i > 0; --i)
        if (changes->columns[i - 1] == due.attribute) return !changes->nulls[i - 1];
    return !value_in(row, due).null;
}

}  // namespace pawl
