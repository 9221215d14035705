// May ereport; owns nothing. See new_rows.hpp.
#include "packs/dag/new_rows.hpp"

#include "log/entry_buffer.hpp"

extern "C" {
#include "utils/fmgroids.h"
}

namespace pawl::dag {

namespace {

Relation open_in(Oid schema, const char* name) {
    return table_open(get_relname_relid(name, schema), RowExclusiveLock);
}

// What a start writes are rows of its own tasks, so keys are there.
bool is_key_check(const Trigger& trigger, const StartTables& tables) {
    return trigger.tgfoid == F_RI_FKEY_CHECK_INS && (trigger.tgconstrrelid == RelationGetRelid(tables.tasks) ||
                                                     trigger.tgconstrrelid == RelationGetRelid(tables.steps));
}

bool has_own_triggers(Relation table, const StartTables& tables) {
    const Oid schema = RelationGetNamespace(tables.edges);
    const Oid kernel = get_namespace_oid("pawl", false);
    const TriggerDesc* triggers = table->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i) {
        const Trigger& trigger = triggers->triggers[i];
        if (!TRIGGER_FOR_INSERT(trigger.tgtype) || is_key_check(trigger, tables)) continue;
        const Oid of = get_func_namespace(trigger.tgfoid);
        if (of != schema && of != kernel) return false;
    }
    return true;
}

bool is_plain(Relation table, const StartTables& tables) {
    const TupleConstr* constraints = RelationGetDescr(table)->constr;
    return table->rd_rel->relkind == RELKIND_RELATION && !table->rd_rel->relispartition &&
           !table->rd_rel->relhassubclass && table->rd_rules == nullptr && !table->rd_rel->relrowsecurity &&
           (constraints == nullptr || !constraints->has_generated_stored) && has_own_triggers(table, tables);
}

void flush(NewRows* rows) {
    insert_log_rows(&rows->table, rows->slots, rows->nused);
    MemoryContext caller = MemoryContextSwitchTo(rows->batch);
    for (int i = 0; i < rows->nused; ++i) {
        TupleTableSlot* slot = rows->slots[i];
        if (rows->member != nullptr) apply_insert(rows->member, {slot, ExecFetchSlotHeapTuple(slot, false, nullptr)});
        ExecClearTuple(slot);
    }
    MemoryContextSwitchTo(caller);
    rows->nused = 0;
    MemoryContextReset(rows->batch);
}

}  // namespace

StartTables open_start_tables() {
    const Oid schema = get_namespace_oid("pawl_dag", false);
    return {open_in(schema, "tasks"), open_in(schema, "steps"), open_in(schema, "edges")};
}

void close_start_tables(const StartTables& tables) {
    for (Relation table : {tables.tasks, tables.steps, tables.edges}) table_close(table, NoLock);
}

bool are_plain(const StartTables& tables) {
    return is_plain(tables.tasks, tables) && is_plain(tables.steps, tables) && is_plain(tables.edges, tables) &&
           fires_insert_triggers(tables.tasks) && fires_insert_triggers(tables.steps);
}

NewRows* begin_rows(Relation table, Member* member) {
    auto* rows = static_cast<NewRows*>(palloc0(sizeof(NewRows)));
    rows->member = member;
    rows->table = open_log_table(table);
    rows->descriptor = CreateTupleDescCopyConstr(RelationGetDescr(table));
    rows->batch = AllocSetContextCreate(CurrentMemoryContext, "pawl new rows", ALLOCSET_DEFAULT_SIZES);
    return rows;
}

void add_row(NewRows* rows, Datum* values, bool* nulls) {
    CHECK_FOR_INTERRUPTS();
    MemoryContext caller = MemoryContextSwitchTo(GetMemoryChunkContext(rows));
    if (rows->nused == NewRows::batch_size) flush(rows);
    if (rows->nused == rows->nslots)
        rows->slots[rows->nslots++] = MakeSingleTupleTableSlot(rows->descriptor, &TTSOpsHeapTuple);
    MemoryContextSwitchTo(rows->batch);
    TupleTableSlot* slot = rows->slots[rows->nused++];
    HeapTuple row = heap_form_tuple(rows->descriptor, values, nulls);
    ExecStoreHeapTuple(row, slot, false);
    if (rows->member != nullptr) {
        HeapTuple managed = with_managed_columns(rows->member, rows->table.log, {slot, row}, nulls);
        if (managed != row) ExecStoreHeapTuple(managed, slot, false);
    }
    slot->tts_tableOid = RelationGetRelid(rows->table.log);
    check_batched_row(rows->table, slot, nulls);
    MemoryContextSwitchTo(caller);
}

void end_rows(NewRows* rows) {
    if (rows->nused > 0) flush(rows);
    for (int i = 0; i < rows->nslots; ++i) ExecDropSingleTupleTableSlot(rows->slots[i]);
    MemoryContextDelete(rows->batch);
    close_log_table(&rows->table);
    CommandCounterIncrement();
    if (rows->member != nullptr) write_pending_entries(false);
}

}  // namespace pawl::dag
