// May ereport; owns nothing. See managed.hpp.
#include "managed.hpp"

#include "backoff.hpp"

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

bool is_named(const ManagedColumn& column) { return NameStr(column.name)[0] != '\0'; }

bool has_tag(const core::State& state, std::string_view tag) {
    for (const std::string& each : state.tags)
        if (each == tag) return true;
    return false;
}

Interval* parse_interval(const std::string& written) {
    return DatumGetIntervalP(DirectFunctionCall3(interval_in, CStringGetDatum(written.c_str()), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
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
    for (const core::Arrow& arrow : machine.arrows()) {
        if (arrow.after.empty() || arrow.from == core::no_state) continue;
        Interval* after = parse_interval(arrow.after);
        Interval*& shortest = managed.shortest_after[arrow.from];
        if (shortest == nullptr || is_shorter(after, shortest)) shortest = after;
    }
}

bool is_event(const text* event, const core::Arrow& arrow) { return event != nullptr && arrow.event == view(event); }

void read_arrows(Managed& managed, const core::Machine& machine) {
    const auto& arrows = machine.arrows();
    managed.roles = static_cast<std::uint8_t*>(palloc0(Max(arrows.size(), 1)));
    for (std::size_t i = 0; i < arrows.size(); ++i) {
        const core::Arrow& arrow = arrows[i];
        if (arrow.from == core::no_state) continue;
        std::uint8_t& role = managed.roles[i];
        if (!arrow.after.empty()) role |= arrow_times;
        if (arrow.event.empty()) continue;
        if (is_event(managed.lapse_event, arrow) || is_event(managed.lapse_else, arrow)) role |= arrow_lapses;
        if (managed.operator_events.contain(arrow.event)) role |= arrow_operates;
        if (managed.retry_events.contain(arrow.event) && !machine.states()[arrow.to].terminal) role |= arrow_retries;
        if (managed.claim_events.contain(arrow.event) && managed.owned[arrow.to] && !managed.owned[arrow.from]) role |= arrow_claims;
    }
}

void resolve(ManagedColumn& column, Relation relation) {
    if (!is_named(column)) return;
    column.attribute = get_attnum(RelationGetRelid(relation), NameStr(column.name));
    if (column.attribute == InvalidAttrNumber)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                        errmsg("column \"%s\" of enforced table \"%s\" is missing", NameStr(column.name), RelationGetRelationName(relation)),
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
    if (const char* lapse = row.string("lapse_event")) managed->lapse_event = cstring_to_text(lapse);
    if (const char* otherwise = row.string("lapse_else")) managed->lapse_else = cstring_to_text(otherwise);
    managed->lease_time = *row.interval_value("lease_time");
    managed->backoff = core::BackoffPolicy{};
    if (Jsonb* policy = row.json("backoff")) managed->backoff = read_backoff(policy);
    managed->claim_columns = names_in(row, "claim_columns");
    int n = 0;
    managed->claim_descending = row.booleans("claim_descending", &n);
    return managed;
}

void resolve_managed(Managed& managed, const core::Machine& machine, Relation relation) {
    for (ManagedColumn* column : {&managed.owner, &managed.lease, &managed.token, &managed.due, &managed.attempts, &managed.max_attempts, &managed.queue,
                                  &managed.backoff_policy})
        resolve(*column, relation);
    read_states(managed, machine);
    read_arrows(managed, machine);
}

}  // namespace pawl
