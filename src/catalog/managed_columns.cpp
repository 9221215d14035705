// May ereport; owns nothing. See managed_columns.hpp.
#include "catalog/managed_columns.hpp"

#include "catalog/backoff.hpp"

namespace pawl {

namespace {

Names names_in(const CatalogRow& row, const char* column) {
    Names names = {};
    names.items = row.strings(column, &names.n);
    return names;
}

ManagedColumn named(const CatalogRow& row, const char* column) {
    ManagedColumn managed = {};
    if (const char* name = row.string(column)) namestrcpy(&managed.name, name);
    return managed;
}

bool is_named(const ManagedColumn& column) {
    return NameStr(column.name)[0] != '\0';
}

bool has_tag(const core::State& state, std::string_view tag) {
    for (const std::string& each : state.tags)
        if (each == tag) return true;
    return false;
}

Interval* parse_interval(const std::string& written) {
    return DatumGetIntervalP(DirectFunctionCall3(interval_in, CStringGetDatum(written.c_str()),
                                                 ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
}

bool is_shorter(Interval* one, Interval* other) {
    return DatumGetBool(DirectFunctionCall2(interval_lt, IntervalPGetDatum(one), IntervalPGetDatum(other)));
}

void read_states(Managed& managed, const core::Machine& machine) {
    const auto& states = machine.states();
    managed.owned = static_cast<bool*>(palloc0(sizeof(bool) * Max(states.size(), 1)));
    managed.shortest_after = static_cast<Interval**>(palloc0(sizeof(Interval*) * Max(states.size(), 1)));
    for (std::size_t i = 0; i < states.size(); ++i) {
        managed.owned[i] = has_tag(states[i], "owned");
    }
    for (const core::Transition& transition : machine.transitions()) {
        if (transition.after.empty() || transition.from == core::no_state) continue;
        Interval* after = parse_interval(transition.after);
        Interval*& shortest = managed.shortest_after[transition.from];
        if (shortest == nullptr || is_shorter(after, shortest)) shortest = after;
    }
}

bool is_event(const text* event, const core::Transition& transition) {
    return event != nullptr && transition.event == view(event);
}

void read_transitions(Managed& managed, const core::Machine& machine) {
    const auto& transitions = machine.transitions();
    managed.roles = static_cast<std::uint8_t*>(palloc0(Max(transitions.size(), 1)));
    for (std::size_t i = 0; i < transitions.size(); ++i) {
        const core::Transition& transition = transitions[i];
        if (transition.from == core::no_state) continue;
        std::uint8_t& role = managed.roles[i];
        if (!transition.after.empty()) role |= role_times;
        if (transition.event.empty()) continue;
        if (is_event(managed.expiry_event, transition) || is_event(managed.expiry_else, transition))
            role |= role_expires;
        if (managed.operator_events.contain(transition.event)) role |= role_operates;
        if (managed.retry_events.contain(transition.event) && !machine.states()[transition.to].terminal)
            role |= role_retries;
        if (managed.claim_events.contain(transition.event) && managed.owned[transition.to] &&
            !managed.owned[transition.from])
            role |= role_claims;
    }
}

void resolve(ManagedColumn& column, Relation relation) {
    if (!is_named(column)) return;
    column.attribute = get_attnum(RelationGetRelid(relation), NameStr(column.name));
    if (column.attribute <= InvalidAttrNumber)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                        errmsg("column \"%s\" of enforced table \"%s\" is missing", NameStr(column.name),
                               RelationGetRelationName(relation)),
                        errhint("SELECT * FROM pawl.health();")));
    column.type = TupleDescAttr(RelationGetDescr(relation), column.attribute - 1)->atttypid;
    column.base = getBaseType(column.type);
    column.modifier = TupleDescAttr(RelationGetDescr(relation), column.attribute - 1)->atttypmod;
}

}  // namespace

Managed* read_managed(const CatalogRow& row) {
    if (!row.has("owner_column")) return nullptr;  // the SQL objects of an earlier version
    auto* managed = static_cast<Managed*>(palloc0(sizeof(Managed)));
    managed->owner = named(row, "owner_column");
    managed->lease = named(row, "lease_column");
    managed->token = named(row, "token_column");
    managed->due = named(row, "due_column");
    managed->attempts = named(row, "attempts_column");
    managed->max_attempts = named(row, "max_attempts_column");
    managed->queue = named(row, "queue_column");
    managed->backoff_policy = named(row, "backoff_column");
    if (!is_named(managed->owner) && !is_named(managed->due) && !is_named(managed->attempts)) return nullptr;

    managed->claim_events = names_in(row, "claim_events");
    managed->retry_events = names_in(row, "retry_events");
    managed->operator_events = names_in(row, "operator_events");
    if (const char* event = row.string("on_expiry")) managed->expiry_event = cstring_to_text(event);
    if (const char* otherwise = row.string("on_expiry_else")) managed->expiry_else = cstring_to_text(otherwise);
    const Interval* lease_time = row.interval_value("lease_time");
    if (lease_time == nullptr) report_damage("a row of pawl.binding", "Its column \"lease_time\" is null.");
    managed->lease_time = *lease_time;
    managed->backoff = core::BackoffPolicy{};
    if (Jsonb* policy = row.json("backoff")) managed->backoff = read_backoff(policy);
    managed->claim_columns = names_in(row, "claim_columns");
    int n = 0;
    managed->claim_descending = row.booleans("claim_descending", &n);
    if (n != managed->claim_columns.n)
        report_damage("a row of pawl.binding",
                      psprintf("It has %d claim_columns, and %d claim_descending.", managed->claim_columns.n, n));
    return managed;
}

const char* managed_problem(const Managed& managed) {
    const struct {
        const char* name;
        bool given;
        const char* needed;
        bool there;
    } needs[] = {
        {"lease_column", is_named(managed.lease), "owner_column", is_named(managed.owner)},
        {"token_column", is_named(managed.token), "owner_column", is_named(managed.owner)},
        {"attempts_column", is_named(managed.attempts), "owner_column", is_named(managed.owner)},
        {"max_attempts_column", is_named(managed.max_attempts), "attempts_column", is_named(managed.attempts)},
        {"claim_events", managed.claim_events.n > 0, "owner_column", is_named(managed.owner)},
        {"claim_columns", managed.claim_columns.n > 0, "claim_events", managed.claim_events.n > 0},
        {"queue_column", is_named(managed.queue), "owner_column", is_named(managed.owner)},
        {"on_expiry", managed.expiry_event != nullptr, "lease_column", is_named(managed.lease)},
        {"on_expiry_else", managed.expiry_else != nullptr, "on_expiry", managed.expiry_event != nullptr},
        {"retry_events", managed.retry_events.n > 0, "due_column", is_named(managed.due)},
        {"retry_events", managed.retry_events.n > 0, "attempts_column", is_named(managed.attempts)},
        {"backoff_column", is_named(managed.backoff_policy), "retry_events", managed.retry_events.n > 0},
    };
    for (const auto& need : needs)
        if (need.given && !need.there) return psprintf("It has %s without %s.", need.name, need.needed);
    return nullptr;
}

const char* column_problem(const Managed& managed, AttrNumber state) {
    const struct {
        const ManagedColumn* column;
        Oid types[5];
    } columns[] = {
        {&managed.owner, {TEXTOID, VARCHAROID, UUIDOID}},
        {&managed.lease, {TIMESTAMPTZOID}},
        {&managed.token, {INT8OID, INT4OID}},
        {&managed.due, {TIMESTAMPTZOID}},
        {&managed.attempts, {INT4OID, INT2OID}},
        {&managed.max_attempts, {INT4OID, INT2OID}},
        {&managed.queue, {TEXTOID, VARCHAROID, UUIDOID, INT4OID, INT8OID}},
        {&managed.backoff_policy, {JSONBOID}},
    };
    for (const auto& each : columns) {
        const ManagedColumn& column = *each.column;
        if (!column.kept()) continue;
        bool fits = &column == &managed.queue && type_is_enum(column.base);
        for (Oid type : each.types) fits |= OidIsValid(type) && column.base == type;
        if (!fits || (column.type != column.base && &column != &managed.owner))
            return psprintf("Column \"%s\" cannot be kept: its type is %s.", NameStr(column.name),
                            format_type_be(column.type));
        bool twice = column.attribute == state;
        for (const auto& other : columns)
            twice |= other.column != &column && other.column->attribute == column.attribute;
        if (twice) return psprintf("Column \"%s\" is used twice.", NameStr(column.name));
    }
    return nullptr;
}

void resolve_managed(Managed& managed, const core::Machine& machine, Relation relation) {
    for (ManagedColumn* column : {&managed.owner, &managed.lease, &managed.token, &managed.due, &managed.attempts,
                                  &managed.max_attempts, &managed.queue, &managed.backoff_policy})
        resolve(*column, relation);
    read_states(managed, machine);
    read_transitions(managed, machine);
}

}  // namespace pawl
