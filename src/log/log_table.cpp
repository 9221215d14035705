// May ereport; owns nothing. See log_table.hpp.
#include "log/log_table.hpp"

#include "catalog/catalog.hpp"

namespace pawl {

namespace {

bool has_simple_indexes(const ResultRelInfo* target) {
    for (int i = 0; i < target->ri_NumIndices; ++i) {
        const Form_pg_index form = target->ri_IndexRelationDescs[i]->rd_index;
        if (target->ri_IndexRelationInfo[i]->ii_ExclusionOps != nullptr || (form->indisunique && !form->indimmediate))
            return false;
    }
    return true;
}

void find_constraints(LogTable* table) {
    TupleDesc descriptor = RelationGetDescr(table->log);
    table->checks = descriptor->constr != nullptr && descriptor->constr->num_check > 0;
    table->required = static_cast<AttrNumber*>(palloc(sizeof(AttrNumber) * descriptor->natts));
    for (int i = 0; i < descriptor->natts; ++i)
        if (TupleDescAttr(descriptor, i)->attnotnull) table->required[table->nrequired++] = i + 1;
}

bool predicate_holds(LogTable* table, IndexInfo* info, ExprContext* context) {
    if (info->ii_Predicate == NIL) return true;
    if (info->ii_PredicateState == nullptr)
        info->ii_PredicateState = ExecPrepareQual(info->ii_Predicate, table->estate);
    return ExecQual(info->ii_PredicateState, context);
}

enum class Version { first, next };

// Inserts index entries of a row version. Uniqueness is checked for new rows only: the next version of a row has the
// same key, and the predecessor's most_recent is cleared before that of the new entry is set. Returns the indexes of
// deferred constraints to be rechecked.
List* insert_entries(LogTable* table, TupleTableSlot* slot, Version version) {
    ResultRelInfo* target = table->target;
    if (!table->simple_indexes) return pg::insert_index_entries(target, slot, table->estate);
    ExprContext* context = GetPerTupleExprContext(table->estate);
    context->ecxt_scantuple = slot;
    for (int i = 0; i < target->ri_NumIndices; ++i) {
        Relation index = target->ri_IndexRelationDescs[i];
        IndexInfo* info = target->ri_IndexRelationInfo[i];
        if (!info->ii_ReadyForInserts || !predicate_holds(table, info, context)) continue;
        Datum values[INDEX_MAX_KEYS];
        bool nulls[INDEX_MAX_KEYS];
        FormIndexDatum(info, slot, table->estate, values, nulls);
        const bool sure = version == Version::next || index == table->most_recent_index;
        index_insert(index, values, nulls, &slot->tts_tid, table->log,
                     index->rd_index->indisunique && !sure ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, false, info);
    }
    return NIL;
}

// After a row was inserted: its index entries and AFTER triggers.
void finish_row(LogTable* table, TupleTableSlot* slot) {
    List* recheck = insert_entries(table, slot, Version::first);
    if (table->fires) ExecARInsertTriggers(table->estate, table->target, slot, recheck, table->capture);
    ResetPerTupleExprContext(table->estate);
}

const TupleTableSlot* stored = nullptr;  // the row whose BEFORE triggers are firing

// Rows that these triggers insert themselves are ordinary INSERTs into the log, so `stored` names a single slot.
bool passes_triggers(LogTable* table, TupleTableSlot* slot) {
    const TupleTableSlot* outer = stored;
    bool passed = false;
    stored = slot;
    PG_TRY();
    { passed = ExecBRInsertTriggers(table->estate, table->target, slot); }
    PG_FINALLY();
    { stored = outer; }
    PG_END_TRY();
    return passed;
}

void insert_row(LogTable* table, TupleTableSlot* slot) {
    EState* estate = table->estate;
    ResultRelInfo* target = table->target;
    if (!passes_triggers(table, slot))
        ereport(ERROR, (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
                        errmsg("a trigger of log \"%s\" suppressed an entry", RelationGetRelationName(table->log)),
                        errdetail("Each state change has its log entry."),
                        errhint("Let the trigger return NEW, or raise an error, which rejects the state change.")));
    TupleConstr* constraints = RelationGetDescr(table->log)->constr;
    if (constraints != nullptr && constraints->has_generated_stored)
        ExecComputeStoredGenerated(target, estate, slot, CMD_INSERT);
    if (constraints != nullptr) ExecConstraints(target, slot, estate);
    table_tuple_insert(table->log, slot, GetCurrentCommandId(true), 0, nullptr);
    finish_row(table, slot);
}

}  // namespace

LogTable open_log_table(Relation log) {
    LogTable table = {};
    table.log = log;
    table.many = true;
    table.estate = CreateExecutorState();
    table.target = makeNode(ResultRelInfo);
    InitResultRelInfo(table.target, log, 0, nullptr, 0);
    ExecOpenIndices(table.target, false);
    table.estate->es_opened_result_relations = list_make1(table.target);
    table.simple_indexes = has_simple_indexes(table.target);
    find_constraints(&table);
    return table;
}

LogTable open_log_leaf(ResultRelInfo* target, EState* estate, TransitionCaptureState* capture) {
    LogTable table = {};
    table.log = target->ri_RelationDesc;
    table.leaf = true;
    table.estate = estate;
    table.target = target;
    table.capture = capture;
    table.simple_indexes = has_simple_indexes(target);
    find_constraints(&table);
    return table;
}

// Columns of the owner (which may have defaults) and BEFORE ROW triggers need single rows; AFTER triggers do not.
void choose_way(LogTable* table, int columns) {
    table->many = RelationGetDescr(table->log)->natts == columns;
    table->fires = table->capture != nullptr;
    TriggerDesc* triggers = table->log->trigdesc;
    const Oid insert_function = own_trigger_function("log_insert");
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i) {
        const Trigger& trigger = triggers->triggers[i];
        if (!TRIGGER_FOR_INSERT(trigger.tgtype) || trigger.tgfoid == insert_function) continue;
        if (table->leaf && !TRIGGER_FOR_ROW(trigger.tgtype)) continue;  // statement triggers of the root fire instead
        table->fires = true;
        if (TRIGGER_FOR_BEFORE(trigger.tgtype) && TRIGGER_FOR_ROW(trigger.tgtype)) table->many = false;
    }
}

void begin_log_triggers(LogTable* table) {
    if (!table->fires) return;
    table->snapshot = !ActiveSnapshotSet();
    if (table->snapshot) PushActiveSnapshot(GetTransactionSnapshot());
    AfterTriggerBeginQuery();
    table->capture = MakeTransitionCaptureState(table->log->trigdesc, RelationGetRelid(table->log), CMD_INSERT);
    ExecBSInsertTriggers(table->estate, table->target);
}

// Reads the array of nulls, because deforming every row would be slow.
void check_batched_row(const LogTable& table, TupleTableSlot* slot, const bool* nulls) {
    if (!table.many) return;
    bool may_violate = table.checks;
    for (int i = 0; !may_violate && i < table.nrequired; ++i) may_violate = nulls[table.required[i] - 1];
    if (may_violate) ExecConstraints(table.target, slot, table.estate);
}

void insert_log_rows(LogTable* table, TupleTableSlot** slots, int n) {
    if (!table->many) {
        for (int i = 0; i < n; ++i) insert_row(table, slots[i]);
        return;
    }
    table_multi_insert(table->log, slots, n, GetCurrentCommandId(true), 0, nullptr);
    for (int i = 0; i < n; ++i) finish_row(table, slots[i]);
}

void index_next_version(LogTable* table, TupleTableSlot* slot) {
    insert_entries(table, slot, Version::next);
    ResetPerTupleExprContext(table->estate);
}

void close_log_table(LogTable* table) {
    if (table->leaf) return;
    if (table->fires) {
        ExecASInsertTriggers(table->estate, table->target, table->capture);
        AfterTriggerEndQuery(table->estate);
        if (table->snapshot) PopActiveSnapshot();
    }
    ExecResetTupleTable(table->estate->es_tupleTable, false);
    ExecCloseResultRelations(table->estate);
    FreeExecutorState(table->estate);
}

bool is_stored_now(const TupleTableSlot* slot) noexcept {
    return slot == stored;
}

}  // namespace pawl
