// May ereport; owns nothing. See writer.hpp.
#include "log/writer.hpp"

#include "catalog/catalog.hpp"
#include "log/layout.hpp"
#include "pg/uuid_v7.hpp"
#include "session/observer.hpp"

extern "C" {
#include "rewrite/rewriteHandler.h"
}

namespace pawl {

namespace {

constexpr int batch_size = 512;

}  // namespace

struct LogWriter {
    Relation log;
    LogLayout layout;
    int nkeys;
    LogColumns columns;
    MemoryContext context;  // reset after every batch

    Relation most_recent_index;  // unique (key) WHERE most_recent, if stored; owned by `target`

    NewestEntrySearch newest_entries;

    // Writing.
    EState* estate;
    ResultRelInfo* target;
    bool simple_indexes;  // index entries need no executor: there are no exclusion or deferrable constraints
    Datum* values;        // of the entry that is formed
    bool* nulls;
    LogEntry entry;
    bytea* hash;  // of the entry formed last, in the memory of the caller of begin_log; null: none
    TupleDesc
        descriptor;  // of the slots; a private copy, because counting references to a shared one is slow for many slots
    TupleTableSlot** slots;
    int nslots;
    int nused;
    bool many;      // rows are inserted in batches, as by COPY
    bool fires;     // the log has user triggers
    bool leaf;      // a partition, written through its root
    bool snapshot;  // one was pushed for the triggers: during logical apply and at commit there may be none
    TransitionCaptureState* capture;
    ExprState** defaults;  // of columns that the owner has added
    bool checks;           // the log has CHECK constraints
    AttrNumber* required;  // the columns that are NOT NULL
    int nrequired;
};

namespace {

bool has_only_our_columns(const LogWriter* writer) {
    const int ours = 11 + writer->nkeys + (writer->layout.stored ? 1 : 0) + (writer->layout.hash_chain ? 1 : 0) +
                     (writer->columns.salt != 0 ? 2 : 0);
    return RelationGetDescr(writer->log)->natts == ours;
}

// Decides between batches and single rows. Columns of the owner (which may have defaults) and BEFORE ROW triggers need
// single rows; AFTER triggers do not.
void choose_way(LogWriter* writer) {
    writer->many = has_only_our_columns(writer);
    writer->fires = false;
    TriggerDesc* triggers = writer->log->trigdesc;
    const Oid insert_function = own_trigger_function("log_insert");
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i) {
        const Trigger& trigger = triggers->triggers[i];
        if (!TRIGGER_FOR_INSERT(trigger.tgtype) || trigger.tgfoid == insert_function) continue;
        if (writer->leaf && !TRIGGER_FOR_ROW(trigger.tgtype)) continue;  // statement triggers of the root fire instead
        writer->fires = true;
        if (TRIGGER_FOR_BEFORE(trigger.tgtype) && TRIGGER_FOR_ROW(trigger.tgtype)) writer->many = false;
    }
}

bool has_simple_indexes(const ResultRelInfo* target) {
    for (int i = 0; i < target->ri_NumIndices; ++i) {
        const Form_pg_index form = target->ri_IndexRelationDescs[i]->rd_index;
        if (target->ri_IndexRelationInfo[i]->ii_ExclusionOps != nullptr || (form->indisunique && !form->indimmediate))
            return false;
    }
    return true;
}

// Finds the partial unique index on exactly the key columns.
Relation find_most_recent_index(LogWriter* writer) {
    for (int i = 0; writer->columns.most_recent != 0 && i < writer->target->ri_NumIndices; ++i) {
        Relation index = writer->target->ri_IndexRelationDescs[i];
        const Form_pg_index form = index->rd_index;
        if (!form->indisunique || writer->target->ri_IndexRelationInfo[i]->ii_Predicate == NIL ||
            form->indnkeyatts != writer->nkeys)
            continue;
        bool same = true;
        for (int key = 0; key < writer->nkeys; ++key) same &= form->indkey.values[key] == log_key_column(writer, key);
        if (same) return index;
    }
    return nullptr;
}

void prepare_defaults(LogWriter* writer) {
    TupleDesc descriptor = RelationGetDescr(writer->log);
    writer->defaults = static_cast<ExprState**>(palloc0(sizeof(ExprState*) * descriptor->natts));
    for (int i = 0; i < descriptor->natts; ++i) {
        Form_pg_attribute attribute = TupleDescAttr(descriptor, i);
        if (attribute->attisdropped || attribute->attgenerated) continue;
        Expr* expression = reinterpret_cast<Expr*>(build_column_default(writer->log, i + 1));
        if (expression != nullptr) writer->defaults[i] = ExecPrepareExpr(expression, writer->estate);
    }
}

void find_constraints(LogWriter* writer) {
    TupleDesc descriptor = RelationGetDescr(writer->log);
    writer->checks = descriptor->constr != nullptr && descriptor->constr->num_check > 0;
    writer->required = static_cast<AttrNumber*>(palloc(sizeof(AttrNumber) * descriptor->natts));
    for (int i = 0; i < descriptor->natts; ++i)
        if (TupleDescAttr(descriptor, i)->attnotnull) writer->required[writer->nrequired++] = i + 1;
}

void prepare_rows(LogWriter* writer) {
    const int columns = RelationGetDescr(writer->log)->natts;
    writer->values = static_cast<Datum*>(palloc0(sizeof(Datum) * columns));
    writer->nulls = static_cast<bool*>(palloc(sizeof(bool) * columns));
    writer->simple_indexes = has_simple_indexes(writer->target);
    writer->most_recent_index = find_most_recent_index(writer);
    writer->descriptor = CreateTupleDescCopyConstr(RelationGetDescr(writer->log));
    writer->slots = static_cast<TupleTableSlot**>(palloc0(sizeof(TupleTableSlot*) * batch_size));
    find_constraints(writer);
    if (!writer->many) prepare_defaults(writer);
}

void prepare_target(LogWriter* writer) {
    writer->estate = CreateExecutorState();
    writer->target = makeNode(ResultRelInfo);
    InitResultRelInfo(writer->target, writer->log, 0, nullptr, 0);
    ExecOpenIndices(writer->target, false);
    writer->estate->es_opened_result_relations = list_make1(writer->target);
    prepare_rows(writer);
    if (writer->fires) {
        writer->snapshot = !ActiveSnapshotSet();
        if (writer->snapshot) PushActiveSnapshot(GetTransactionSnapshot());
        AfterTriggerBeginQuery();
        writer->capture = MakeTransitionCaptureState(writer->log->trigdesc, RelationGetRelid(writer->log), CMD_INSERT);
        ExecBSInsertTriggers(writer->estate, writer->target);
    }
}

bool predicate_holds(LogWriter* writer, IndexInfo* info, ExprContext* context) {
    if (info->ii_Predicate == NIL) return true;
    if (info->ii_PredicateState == nullptr)
        info->ii_PredicateState = ExecPrepareQual(info->ii_Predicate, writer->estate);
    return ExecQual(info->ii_PredicateState, context);
}

enum class Version { first, next };

// Inserts index entries of a row version. Uniqueness is checked for new rows only: the next version of a row has the
// same key, and the predecessor's most_recent is cleared before that of the new entry is set. Returns the indexes of
// deferred constraints to be rechecked.
List* insert_entries(LogWriter* writer, TupleTableSlot* slot, Version version) {
    ResultRelInfo* target = writer->target;
    if (!writer->simple_indexes) return pg::insert_index_entries(target, slot, writer->estate);
    ExprContext* context = GetPerTupleExprContext(writer->estate);
    context->ecxt_scantuple = slot;
    for (int i = 0; i < target->ri_NumIndices; ++i) {
        Relation index = target->ri_IndexRelationDescs[i];
        IndexInfo* info = target->ri_IndexRelationInfo[i];
        if (!info->ii_ReadyForInserts || !predicate_holds(writer, info, context)) continue;
        Datum values[INDEX_MAX_KEYS];
        bool nulls[INDEX_MAX_KEYS];
        FormIndexDatum(info, slot, writer->estate, values, nulls);
        const bool sure = version == Version::next || index == writer->most_recent_index;
        index_insert(index, values, nulls, &slot->tts_tid, writer->log,
                     index->rd_index->indisunique && !sure ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, false, info);
    }
    return NIL;
}

// After a row was inserted: its index entries and AFTER triggers.
void finish_row(LogWriter* writer, TupleTableSlot* slot) {
    List* recheck = insert_entries(writer, slot, Version::first);
    if (writer->fires) ExecARInsertTriggers(writer->estate, writer->target, slot, recheck, writer->capture);
    ResetPerTupleExprContext(writer->estate);
}

const TupleTableSlot* stored = nullptr;  // the row whose BEFORE triggers are firing

// Rows that these triggers insert themselves are ordinary INSERTs into the log, so `stored` names a single slot.
bool passes_triggers(LogWriter* writer, TupleTableSlot* slot) {
    const TupleTableSlot* outer = stored;
    bool passed = false;
    stored = slot;
    PG_TRY();
    { passed = ExecBRInsertTriggers(writer->estate, writer->target, slot); }
    PG_FINALLY();
    { stored = outer; }
    PG_END_TRY();
    return passed;
}

void insert_row(LogWriter* writer, TupleTableSlot* slot) {
    EState* estate = writer->estate;
    ResultRelInfo* target = writer->target;
    if (!passes_triggers(writer, slot)) return;  // a user trigger has skipped the row
    TupleConstr* constraints = RelationGetDescr(writer->log)->constr;
    if (constraints != nullptr && constraints->has_generated_stored)
        ExecComputeStoredGenerated(target, estate, slot, CMD_INSERT);
    if (constraints != nullptr) ExecConstraints(target, slot, estate);
    table_tuple_insert(writer->log, slot, GetCurrentCommandId(true), 0, nullptr);
    finish_row(writer, slot);
}

// Whether the entry formed last may violate constraints. Uses its array of nulls, because deforming every row would be
// slow.
bool may_break_constraints(const LogWriter* writer) {
    for (int i = 0; i < writer->nrequired; ++i)
        if (writer->nulls[writer->required[i] - 1]) return true;
    return writer->checks;
}

void insert_many(LogWriter* writer) {
    table_multi_insert(writer->log, writer->slots, writer->nused, GetCurrentCommandId(true), 0, nullptr);
    for (int i = 0; i < writer->nused; ++i) finish_row(writer, writer->slots[i]);
}

}  // namespace

LogWriter* begin_log(Relation log, const LogLayout& layout, int nkeys, LogUse use) {
    auto* writer = static_cast<LogWriter*>(palloc0(sizeof(LogWriter)));
    writer->log = log;
    writer->layout = layout;
    writer->nkeys = nkeys;
    writer->columns = find_columns(log, layout);
    writer->context = AllocSetContextCreate(CurrentMemoryContext, "pawl log batch", ALLOCSET_DEFAULT_SIZES);
    writer->many = true;
    if (use == LogUse::append) choose_way(writer);
    begin_search(&writer->newest_entries, writer->log, layout, writer->columns, nkeys, writer->context);
    prepare_target(writer);
    return writer;
}

LogWriter* begin_leaf(ResultRelInfo* target, EState* estate, TransitionCaptureState* capture, const LogLayout& layout,
                      int nkeys) {
    auto* writer = static_cast<LogWriter*>(palloc0(sizeof(LogWriter)));
    writer->log = target->ri_RelationDesc;
    writer->leaf = true;
    writer->layout = layout;
    writer->nkeys = nkeys;
    writer->columns = find_columns(writer->log, layout);
    writer->context = AllocSetContextCreate(CurrentMemoryContext, "pawl log batch", ALLOCSET_DEFAULT_SIZES);
    writer->estate = estate;
    writer->target = target;
    writer->capture = capture;
    choose_way(writer);
    writer->fires |= capture != nullptr;
    begin_search(&writer->newest_entries, writer->log, layout, writer->columns, nkeys, writer->context);
    prepare_rows(writer);
    return writer;
}

AttrNumber log_key_column(const LogWriter* writer, int key) {
    return writer->newest_entries.index->rd_index->indkey.values[key];
}

bool is_log_column(const LogWriter* writer, AttrNumber attribute) {
    const LogColumns& columns = writer->columns;
    for (AttrNumber ours :
         {columns.id, columns.sort_key, columns.from_state, columns.to_state, columns.event, columns.processor,
          columns.actor, columns.correlation_id, columns.metadata, columns.machine_version, columns.created_at,
          columns.most_recent, columns.hash, columns.salt, columns.salts})
        if (ours == attribute) return true;
    for (int i = 0; i < writer->nkeys; ++i)
        if (log_key_column(writer, i) == attribute) return true;
    return false;
}

NewestEntry find_newest(LogWriter* writer, const StateChange& change) {
    return find_newest(&writer->newest_entries, change);
}

namespace {

// The memory of a batch may be reset before the next entry of the row is formed.
void keep_hash(LogWriter* writer, const bytea* hash) {
    if (writer->hash == nullptr)
        writer->hash = static_cast<bytea*>(MemoryContextAlloc(GetMemoryChunkContext(writer), VARSIZE(hash)));
    memcpy(writer->hash, hash, VARSIZE(hash));
}

}  // namespace

HeapTuple form_log_tuple(LogWriter* writer, const StateChange& change, const NewestEntry& newest) {
    const LogColumns& columns = writer->columns;
    TupleDesc descriptor = RelationGetDescr(writer->log);
    Datum* values = writer->values;
    bool* nulls = writer->nulls;
    memset(nulls, true, sizeof(bool) * descriptor->natts);

    for (int i = 0; writer->defaults != nullptr && i < descriptor->natts; ++i)
        if (writer->defaults[i] != nullptr)
            values[i] = ExecEvalExpr(writer->defaults[i], GetPerTupleExprContext(writer->estate), &nulls[i]);

    auto set = [&](AttrNumber column, Datum value) {
        values[column - 1] = value;
        nulls[column - 1] = false;
    };
    auto set_text = [&](AttrNumber column, const text* value) {
        nulls[column - 1] = value == nullptr;
        values[column - 1] = PointerGetDatum(value);
    };
    // The clock was read under the row's lock, so it is before the predecessor's time only if the clock was set back.
    const TimestampTz at = newest.found ? Max(change.at, newest.at) : change.at;
    const int sort_key = newest.found ? newest.sort_key + 1 : 1;
    if (newest.found && observer.left != nullptr) observer.left(change, at - newest.at);
    writer->entry.at = at;
    writer->entry.sort_key = sort_key;
    make_uuid_v7(at, &writer->entry.id);

    set(columns.id, UUIDPGetDatum(&writer->entry.id));
    for (int i = 0; i < writer->nkeys; ++i) set(log_key_column(writer, i), change.key[i]);
    set(columns.sort_key, Int32GetDatum(sort_key));
    set_text(columns.from_state, change.from);
    set_text(columns.to_state, change.to);
    set_text(columns.event, change.event);
    set_text(columns.processor, change.processor);
    set_text(columns.actor, change.actor);
    set_text(columns.correlation_id, change.correlation_id);
    nulls[columns.metadata - 1] = change.metadata == nullptr;
    values[columns.metadata - 1] = JsonbPGetDatum(change.metadata);
    set(columns.machine_version, Int32GetDatum(change.binding->machine->version));
    set(columns.created_at, TimestampTzGetDatum(at));
    // The next entry of the row is written in the same batch, and could not clear the flag of a row that is not there.
    const bool most_recent = change.then == nullptr || !writer->many;
    if (columns.most_recent != 0) set(columns.most_recent, BoolGetDatum(most_recent));
    bytea* salt = nullptr;
    if (columns.salt != 0) {
        salt = make_salt();
        set(columns.salt, PointerGetDatum(salt));
        nulls[columns.salts - 1] = true;
    }
    if (columns.hash != 0) {
        bytea* hash = log_hash(change, sort_key, at, newest.hash, salt);
        set(columns.hash, PointerGetDatum(hash));
        if (change.then != nullptr) keep_hash(writer, hash);
    }
    return heap_form_tuple(descriptor, values, nulls);
}

bool is_stored_now(const TupleTableSlot* slot) noexcept {
    return slot == stored;
}

bool keeps_all_rows(const LogWriter* writer) {
    return writer->many;
}

const LogEntry& last_entry(const LogWriter* writer) {
    return writer->entry;
}

NewestEntry newest_after(LogWriter* writer) {
    NewestEntry newest = {};
    newest.found = true;
    newest.sort_key = writer->entry.sort_key;
    newest.at = writer->entry.at;
    newest.hash = writer->hash;
    return newest;
}

void retire_newest(LogWriter* writer, const NewestEntry& newest) {
    if (!newest.found || writer->columns.most_recent == 0 || newest.tuple == nullptr) return;
    // If triggers nest, two state changes of a row may be written at the end of one command, and a command cannot
    // update a row that it inserted.
    HeapTupleHeader header = newest.tuple->t_data;
    if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(header)) &&
        HeapTupleHeaderGetCmin(header) >= GetCurrentCommandId(false))
        CommandCounterIncrement();
    int column = writer->columns.most_recent;
    Datum value = BoolGetDatum(false);
    bool null = false;
    HeapTuple retired =
        heap_modify_tuple_by_cols(newest.tuple, RelationGetDescr(writer->log), 1, &column, &value, &null);
    ItemPointerData at = newest.tuple->t_self;
#if PG_VERSION_NUM >= 160000
    TU_UpdateIndexes update_indexes;
    simple_heap_update(writer->log, &at, retired, &update_indexes);
#else
    simple_heap_update(writer->log, &at, retired);
#endif
    if (HeapTupleIsHeapOnly(retired)) return;
    TupleTableSlot* slot = writer->newest_entries.slot;
    ExecForceStoreHeapTuple(retired, slot, false);
    slot->tts_tid = retired->t_self;  // a buffer slot does not copy it from the tuple
    insert_entries(writer, slot, Version::next);
    ResetPerTupleExprContext(writer->estate);
    ExecClearTuple(slot);
}

void add_to_log(LogWriter* writer, const StateChange& change, const NewestEntry& newest) {
    MemoryContext caller = MemoryContextSwitchTo(writer->context);
    HeapTuple tuple = form_log_tuple(writer, change, newest);
    retire_newest(writer, newest);
    MemoryContextSwitchTo(caller);
    if (writer->nused == writer->nslots)
        writer->slots[writer->nslots++] = MakeSingleTupleTableSlot(writer->descriptor, &TTSOpsHeapTuple);
    TupleTableSlot* slot = writer->slots[writer->nused++];
    ExecStoreHeapTuple(tuple, slot, false);
    slot->tts_tableOid = RelationGetRelid(writer->log);
    if (writer->many && may_break_constraints(writer)) ExecConstraints(writer->target, slot, writer->estate);
    if (writer->nused == batch_size) flush_log(writer);
}

void flush_log(LogWriter* writer) {
    if (writer->nused > 0) {
        if (writer->many)
            insert_many(writer);
        else
            for (int i = 0; i < writer->nused; ++i) insert_row(writer, writer->slots[i]);
        for (int i = 0; i < writer->nused; ++i) ExecClearTuple(writer->slots[i]);
        writer->nused = 0;
    }
    MemoryContextReset(writer->context);
}

void finish_log(LogWriter* writer) {
    flush_log(writer);
    if (writer->fires && !writer->leaf) {
        ExecASInsertTriggers(writer->estate, writer->target, writer->capture);
        AfterTriggerEndQuery(writer->estate);
        if (writer->snapshot) PopActiveSnapshot();
    }
    for (int i = 0; i < writer->nslots; ++i) ExecDropSingleTupleTableSlot(writer->slots[i]);
    end_search(&writer->newest_entries);
    MemoryContextDelete(writer->context);
    if (writer->leaf) return;
    ExecResetTupleTable(writer->estate->es_tupleTable, false);
    ExecCloseResultRelations(writer->estate);
    FreeExecutorState(writer->estate);
}

}  // namespace pawl
