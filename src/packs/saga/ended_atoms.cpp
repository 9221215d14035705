// May ereport; owns nothing. Picks, of the atoms that a statement updated, those that came to an end, and hands them to
// pawl_saga._follow_up. Most statements (a claim, a heartbeat, a counter) end none, and cost a look at their rows.
#include "packs/saga/follow_ups.hpp"
#include "packs/saga/following.hpp"
#include "pg/row_trigger.hpp"

namespace pawl {

namespace {

// An atom is a task or a retry. Only tasks have workers.
enum Column { flow, node, state, blockers, intention, failure, worker, lease_until, timeout_at };
constexpr Oid types[] = {UUIDOID,  INT4OID, TEXTOID,        INT4OID,       TEXTOID,
                         JSONBOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID};
pg::Table<9> tasks = {
    "pawl_saga",
    "tasks",
    {"flow_uuid", "node", "state", "blockers", "intention", "failure", "worker", "lease_until", "timeout_at"},
    {}};
pg::Table<6> retries = {"pawl_saga", "retries", {"flow_uuid", "node", "state", "blockers", "intention", "failure"}, {}};

using saga::Atom;
using saga::end_statement;
using saga::Ended;
using saga::Moment;

// Where the columns are.
template <int n>
const AttrNumber* columns_in(Relation relation, pg::Table<n>& table) {
    static_assert(n <= lengthof(types));
    table.find_columns(RelationGetDescr(relation), types);
    return table.numbers;
}

Datum value(TupleTableSlot* slot, int column) {
    bool null;
    const Datum found = slot_getattr(slot, column, &null);
    if (null)
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("an atom lacks its %s",
                               NameStr(TupleDescAttr(slot->tts_tupleDescriptor, column - 1)->attname))));
    return found;
}

std::string_view text_value(Datum datum) {
    const text* found = DatumGetTextPP(datum);
    return {VARDATA_ANY(found), static_cast<std::size_t>(VARSIZE_ANY_EXHDR(found))};
}

bool is_end(std::string_view state) {
    for (const char* end : {"SUCCESS", "FAILURE", "REVERTED", "REVERT_FAILURE", "IGNORE"})
        if (state == end) return true;
    return false;
}

bool is_past(TupleTableSlot* slot, int column) {
    bool null;
    const Datum time = slot_getattr(slot, column, &null);
    return !null && DatumGetTimestampTz(time) <= GetCurrentTimestamp();
}

bool has_lost_worker(TupleTableSlot* old, const AttrNumber* columns) {
    return slot_attisnull(old, columns[worker]) || is_past(old, columns[lease_until]) ||
           is_past(old, columns[timeout_at]);
}

Datum copied_text(TupleTableSlot* slot, int column) {
    return datumCopy(value(slot, column), false, -1);
}

void add(Ended& ended, TupleTableSlot* slot, const AttrNumber* columns) {
    if (ended.n == ended.room) {
        ended.room = ended.room == 0 ? 8 : 2 * ended.room;
        const Size size = static_cast<Size>(ended.room) * sizeof(Atom);
        ended.atoms = static_cast<Atom*>(ended.atoms == nullptr ? MemoryContextAllocHuge(CurrentMemoryContext, size)
                                                                : repalloc_huge(ended.atoms, size));
    }
    Atom& atom = ended.atoms[ended.n++];
    atom.flow = *DatumGetUUIDP(value(slot, columns[flow]));
    atom.node = DatumGetInt32(value(slot, columns[node]));
    atom.state = copied_text(slot, columns[state]);
    atom.blockers = DatumGetInt32(value(slot, columns[blockers]));
    atom.intention = copied_text(slot, columns[intention]);
    atom.failure.value = slot_getattr(slot, columns[failure], &atom.failure.isnull);
    if (!atom.failure.isnull) atom.failure.value = datumCopy(atom.failure.value, false, -1);
}

// The old and the new version of each row have the same place in their transition tables.
Ended ended_atoms(TriggerData* trigger, bool of_tasks) {
    Relation table = trigger->tg_relation;
    const AttrNumber* columns = of_tasks ? columns_in(table, tasks) : columns_in(table, retries);
    TupleTableSlot* before = MakeSingleTupleTableSlot(RelationGetDescr(table), &TTSOpsMinimalTuple);
    TupleTableSlot* after = MakeSingleTupleTableSlot(RelationGetDescr(table), &TTSOpsMinimalTuple);
    const int of_old = tuplestore_alloc_read_pointer(trigger->tg_oldtable, EXEC_FLAG_REWIND);
    const int of_new = tuplestore_alloc_read_pointer(trigger->tg_newtable, EXEC_FLAG_REWIND);
    tuplestore_select_read_pointer(trigger->tg_oldtable, of_old);
    tuplestore_select_read_pointer(trigger->tg_newtable, of_new);
    tuplestore_rescan(trigger->tg_oldtable);
    tuplestore_rescan(trigger->tg_newtable);
    Ended ended = {};
    ended.tasks = of_tasks;
    while (tuplestore_gettupleslot(trigger->tg_newtable, true, false, after)) {
        if (!tuplestore_gettupleslot(trigger->tg_oldtable, true, false, before))
            ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("a statement has more new rows than old ones")));
        const std::string_view was = text_value(value(before, columns[state]));
        const std::string_view is = text_value(value(after, columns[state]));
        if (was == is || !is_end(is)) continue;
        add(ended, after, columns);
        ended.by_duty |= of_tasks && is == "FAILURE" && was == "RUNNING" && has_lost_worker(before, columns);
    }
    tuplestore_select_read_pointer(trigger->tg_oldtable, 0);
    tuplestore_select_read_pointer(trigger->tg_newtable, 0);
    ExecDropSingleTupleTableSlot(before);
    ExecDropSingleTupleTableSlot(after);
    return ended;
}

int by_flow_and_node(const void* left, const void* right) {
    const auto* a = static_cast<const Atom*>(left);
    const auto* b = static_cast<const Atom*>(right);
    const int order = memcmp(&a->flow, &b->flow, UUID_LEN);
    return order != 0 ? order : (a->node > b->node) - (a->node < b->node);
}

// By OID, without a check of privileges: nothing else calls it.
void follow_up(Ended& ended) {
    OidFunctionCall1(pg::function_of("pawl_saga", "_follow_up"), PointerGetDatum(&ended));
}

bool is_table(Oid relation, const char* name) {
    return relation == get_relname_relid(name, get_namespace_oid("pawl_saga", true));
}

}  // namespace

// pawl_saga._atoms_ended(): the trigger function of pawl_saga.tasks and pawl_saga.retries.
PAWL_FUNCTION(pawl_saga_atoms_ended) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED, "pawl_saga._atoms_ended() is a trigger function");
    auto* trigger = reinterpret_cast<TriggerData*>(fcinfo->context);
    pg::call([&] {
        const Oid relation = RelationGetRelid(trigger->tg_relation);
        const bool of_tasks = is_table(relation, "tasks");
        if (!of_tasks && !is_table(relation, "retries"))
            ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                            errmsg("this trigger function cannot be used on table \"%s\"",
                                   RelationGetRelationName(trigger->tg_relation)),
                            errdetail("It is fired by pawl_saga.tasks, pawl_saga.retries only."),
                            errhint("Drop the trigger.")));
        if (!TRIGGER_FIRED_AFTER(trigger->tg_event) || !TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event) ||
            !TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) || trigger->tg_oldtable == nullptr ||
            trigger->tg_newtable == nullptr)
            ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                            errmsg("this trigger function must be fired AFTER UPDATE STATEMENT, with transition "
                                   "tables"),
                            errhint("Drop the trigger.")));
        const Moment since = end_statement();
        Ended ended = ended_atoms(trigger, of_tasks);
        ended.since = since;
        if (ended.n == 0) {
            // by OID, as below
            if (has_ends_to_decide()) OidFunctionCall0(pg::function_of("pawl_saga", "_decide_ends"));
            return;
        }
        qsort(ended.atoms, static_cast<std::size_t>(ended.n), sizeof(Atom), by_flow_and_node);
        follow_up(ended);
    });
    return PointerGetDatum(nullptr);
}

}  // namespace pawl
