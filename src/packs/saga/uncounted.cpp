// May throw and may ereport. See uncounted.hpp. What is noted is kept in variables and not in settings, which any
// session could set.
#include "packs/saga/uncounted.hpp"

#include "pg/row_trigger.hpp"

namespace pawl::saga {

namespace {

struct Statement {
    SubTransactionId in;
    Moment since;
    bool of_retries;
    FlowIds ended;
    Statement* outer;
};

struct Changes {
    FlowIds flows;
    Moment first;  // that of the first of them; each other is one later
};

Statement* innermost = nullptr;
Changes changes = {};
Moment now = 0;

void forget_all() {
    innermost = nullptr;
    changes = {};
}

void end_of_transaction(XactEvent event, void*) {
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE) forget_all();
}

// A statement that raises an error takes the subtransaction with it in which it began.
void end_of_subtransaction(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void*) {
    if (event == SUBXACT_EVENT_ABORT_SUB)
        while (innermost != nullptr && innermost->in == mine) innermost = innermost->outer;
    if (event == SUBXACT_EVENT_COMMIT_SUB)
        for (Statement* each = innermost; each != nullptr && each->in == mine; each = each->outer) each->in = parent;
}

// The callbacks stay registered until the session ends.
void watch_transactions() {
    static bool watching = false;
    if (watching) return;
    RegisterXactCallback(end_of_transaction, nullptr);
    RegisterSubXactCallback(end_of_subtransaction, nullptr);
    watching = true;
}

}  // namespace

bool FlowIds::has(const pg_uuid_t& flow) const noexcept {
    for (int i = n - 1; i >= 0; --i)
        if (memcmp(&items[i], &flow, UUID_LEN) == 0) return true;
    return false;
}

void FlowIds::add(const pg_uuid_t& flow) {
    if (n == room) {
        const int more = room == 0 ? 8 : 2 * room;
        const Size size = static_cast<Size>(more) * sizeof(pg_uuid_t);
        items = static_cast<pg_uuid_t*>(items == nullptr ? MemoryContextAllocHuge(TopTransactionContext, size)
                                                         : repalloc_huge(items, size));
        room = more;
    }
    items[n++] = flow;
}

void FlowIds::remove(const pg_uuid_t& flow) noexcept {
    int kept = 0;
    for (int i = 0; i < n; ++i)
        if (memcmp(&items[i], &flow, UUID_LEN) != 0) items[kept++] = items[i];
    n = kept;
}

void begin_statement(bool of_retries) {
    watch_transactions();
    auto* begun = static_cast<Statement*>(MemoryContextAlloc(TopTransactionContext, sizeof(Statement)));
    *begun = {GetCurrentSubTransactionId(), now, of_retries, {}, innermost};
    innermost = begun;
}

Moment end_statement() noexcept {
    if (innermost == nullptr) return now;
    Statement* ended = innermost;
    const Moment since = ended->since;
    innermost = ended->outer;
    if (ended->ended.items != nullptr) pfree(ended->ended.items);
    pfree(ended);
    return since;
}

int statements_under_way() noexcept {
    int n = 0;
    for (const Statement* each = innermost; each != nullptr; each = each->outer) ++n;
    return n;
}

void note_end(const pg_uuid_t& flow) {
    if (innermost == nullptr) return;
    FlowIds& ended = innermost->ended;
    if (ended.n == 0 || memcmp(&ended.items[ended.n - 1], &flow, UUID_LEN) != 0) ended.add(flow);
}

bool is_uncounted(const pg_uuid_t& flow) noexcept {
    for (const Statement* each = innermost; each != nullptr; each = each->outer)
        if (each->of_retries || each->ended.has(flow)) return true;
    return false;
}

// Only statements under way ask for it.
void note_change(const pg_uuid_t& flow) {
    if (innermost == nullptr) return;
    if (changes.flows.n == 0) changes.first = now + 1;
    changes.flows.add(flow);
    ++now;
}

bool has_changed(const pg_uuid_t& flow, Moment since) noexcept {
    for (int i = changes.flows.n - 1; i >= 0 && changes.first + i > since; --i)
        if (memcmp(&changes.flows.items[i], &flow, UUID_LEN) == 0) return true;
    return false;
}

bool has_any_changed(Moment since) noexcept {
    return now > since;
}

// Of pawl_saga.tasks and pawl_saga.retries.
PAWL_FUNCTION(pawl_saga_atoms_change) {
    auto* trigger = CALLED_AS_TRIGGER(fcinfo) ? reinterpret_cast<TriggerData*>(fcinfo->context) : nullptr;
    if (trigger == nullptr || !TRIGGER_FIRED_BEFORE(trigger->tg_event) ||
        !TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event) || !TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                          "this trigger function must be fired BEFORE UPDATE STATEMENT");
    pg::call([&] {
        static Oid known = InvalidOid;  // pawl_saga.tasks
        bool of_tasks = RelationGetRelid(trigger->tg_relation) == known;
        if (!of_tasks && pg::is_table(trigger->tg_relation, "pawl_saga", "tasks")) {
            known = RelationGetRelid(trigger->tg_relation);
            of_tasks = true;
        }
        if (!of_tasks && !pg::is_table(trigger->tg_relation, "pawl_saga", "retries"))
            ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                            errmsg("this trigger function cannot be used on table \"%s\"",
                                   RelationGetRelationName(trigger->tg_relation)),
                            errdetail("It is fired by pawl_saga.tasks, pawl_saga.retries only."),
                            errhint("Drop the trigger.")));
        begin_statement(!of_tasks);
    });
    return PointerGetDatum(nullptr);
}

// pawl_saga._is_uncounted(flow)
PAWL_FUNCTION(pawl_saga_is_uncounted) {
    pg::require(fcinfo, 0, "flow");
    return BoolGetDatum(is_uncounted(*PG_GETARG_UUID_P(0)));
}

// pawl_saga._changed(flow)
PAWL_FUNCTION(pawl_saga_changed) {
    pg::require(fcinfo, 0, "flow");
    pg::call([&] { note_change(*PG_GETARG_UUID_P(0)); });
    return static_cast<Datum>(0);
}

}  // namespace pawl::saga
