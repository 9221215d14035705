// May ereport; owns nothing. See partitions.hpp.
#include "log/partitions.hpp"

extern "C" {
#include "executor/execPartition.h"
}

namespace pawl {

struct LogTree {
    LogWriter* only;  // set for a log that is a single table; the other fields are for partitioned logs

    LogLayout layout;
    int nkeys;
    MemoryContext context;
    EState* estate;
    ResultRelInfo* root;
    ModifyTableState* state;  // as in COPY
    PartitionTupleRouting* routing;
    TupleTableSlot* key_slot;  // of the root; only the key columns are set
    AttrNumber* key_columns;
    TransitionCaptureState* capture;
    bool snapshot;
    List* targets;  // ResultRelInfo
    List* leaves;   // their LogWriter
    ResultRelInfo* last_target;
    LogWriter* last_leaf;
};

namespace {

void find_key_columns(LogTree* tree, Relation log) {
    const Oid primary_key = pg::primary_key_index(log);
    if (!OidIsValid(primary_key))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("log table \"%s\" has no primary key", RelationGetRelationName(log)),
                        errdetail("pawl.enable_log created one on the row's key and sort_key."),
                        errhint("SELECT * FROM pawl.health();")));
    Relation index = index_open(primary_key, AccessShareLock);
    tree->key_columns = static_cast<AttrNumber*>(palloc(sizeof(AttrNumber) * tree->nkeys));
    check_subject_key(log, index, tree->layout.keys, tree->nkeys, 1);
    for (int i = 0; i < tree->nkeys; ++i) tree->key_columns[i] = index->rd_index->indkey.values[i];
    index_close(index, NoLock);
}

void begin_partitioned(LogTree* tree, Relation log) {
    find_key_columns(tree, log);
    tree->key_slot = MakeSingleTupleTableSlot(RelationGetDescr(log), &TTSOpsVirtual);
    tree->estate = CreateExecutorState();
    tree->root = makeNode(ResultRelInfo);
    InitResultRelInfo(tree->root, log, 0, nullptr, 0);
    tree->estate->es_opened_result_relations = list_make1(tree->root);
    tree->state = makeNode(ModifyTableState);
    tree->state->ps.state = tree->estate;
    tree->state->operation = CMD_INSERT;
    tree->state->mt_nrels = 1;
    tree->state->resultRelInfo = tree->root;
    tree->state->rootResultRelInfo = tree->root;
    tree->routing = ExecSetupPartitionTupleRouting(tree->estate, log);
    // Partitions may have triggers of their own.
    tree->snapshot = !ActiveSnapshotSet();
    if (tree->snapshot) PushActiveSnapshot(GetTransactionSnapshot());
    AfterTriggerBeginQuery();
    tree->capture = MakeTransitionCaptureState(log->trigdesc, RelationGetRelid(log), CMD_INSERT);
    ExecBSInsertTriggers(tree->estate, tree->root);
}

ResultRelInfo* route(LogTree* tree, const StateChange& change) {
    TupleTableSlot* slot = tree->key_slot;
    ExecClearTuple(slot);
    memset(slot->tts_isnull, true, sizeof(bool) * slot->tts_tupleDescriptor->natts);
    for (int i = 0; i < tree->nkeys; ++i) {
        slot->tts_values[tree->key_columns[i] - 1] = change.key[i];
        slot->tts_isnull[tree->key_columns[i] - 1] = false;
    }
    ExecStoreVirtualTuple(slot);
    return ExecFindPartition(tree->state, tree->root, tree->routing, slot, tree->estate);
}

LogWriter* leaf_of(LogTree* tree, ResultRelInfo* target) {
    ListCell *known, *leaf;
    forboth(known, tree->targets, leaf, tree->leaves) {
        if (lfirst(known) == target) return static_cast<LogWriter*>(lfirst(leaf));
    }
    MemoryContext caller = MemoryContextSwitchTo(tree->context);
    LogWriter* writer = begin_leaf(target, tree->estate, tree->capture, tree->layout, tree->nkeys);
    tree->targets = lappend(tree->targets, target);
    tree->leaves = lappend(tree->leaves, writer);
    MemoryContextSwitchTo(caller);
    return writer;
}

}  // namespace

LogTree* begin_tree(Relation log, const LogLayout& layout, int nkeys) {
    check_log_table(log);
    auto* tree = static_cast<LogTree*>(palloc0(sizeof(LogTree)));
    if (log->rd_rel->relkind != RELKIND_PARTITIONED_TABLE) {
        tree->only = begin_log(log, layout, nkeys, LogUse::append);
        return tree;
    }
    tree->layout = layout;
    tree->nkeys = nkeys;
    tree->context = CurrentMemoryContext;
    begin_partitioned(tree, log);
    return tree;
}

LogWriter* writer_for(LogTree* tree, const StateChange& change) {
    if (tree->only != nullptr) return tree->only;
    ResultRelInfo* target = route(tree, change);
    if (target != tree->last_target) {
        tree->last_leaf = leaf_of(tree, target);
        tree->last_target = target;
    }
    return tree->last_leaf;
}

void flush_tree(LogTree* tree) {
    if (tree->only != nullptr) return flush_log(tree->only);
    ListCell* leaf;
    foreach (leaf, tree->leaves) flush_log(static_cast<LogWriter*>(lfirst(leaf)));
}

void finish_tree(LogTree* tree) {
    if (tree->only != nullptr) return finish_log(tree->only);
    ListCell* leaf;
    foreach (leaf, tree->leaves) finish_log(static_cast<LogWriter*>(lfirst(leaf)));
    ExecASInsertTriggers(tree->estate, tree->root, tree->capture);
    AfterTriggerEndQuery(tree->estate);
    if (tree->snapshot) PopActiveSnapshot();
    ExecDropSingleTupleTableSlot(tree->key_slot);
    ExecCleanupTupleRouting(tree->state, tree->routing);
    ExecResetTupleTable(tree->estate->es_tupleTable, false);
    ExecCloseResultRelations(tree->estate);
    FreeExecutorState(tree->estate);
}

}  // namespace pawl
