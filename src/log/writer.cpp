// May ereport; owns nothing. See writer.hpp.
#include "log/writer.hpp"

#include "log/layout.hpp"
#include "log/log_table.hpp"
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
    LogTable table;
    LogLayout layout;
    int nkeys;
    LogColumns columns;
    MemoryContext context;  // reset after every batch

    NewestEntrySearch newest_entries;

    // The entry that is formed.
    Datum* values;
    bool* nulls;
    ExprState** defaults;  // of columns that the owner has added; null: there are none
    LogEntry entry;
    bytea* hash;  // of the entry formed last, in the memory of the caller of begin_log; null: none

    // The entries of a batch.
    TupleDesc
        descriptor;  // of the slots; a private copy, because counting references to a shared one is slow for many slots
    TupleTableSlot** slots;
    int nslots;
    int nused;
};

namespace {

// How many columns a log has to which the owner has added none.
int own_columns(const LogWriter* writer) {
    return 11 + writer->nkeys + (writer->layout.stored ? 1 : 0) + (writer->layout.hash_chain ? 3 : 0) +
           (writer->columns.placed > 0 ? 1 : 0);
}

// Finds the partial unique index on exactly the key columns.
Relation find_most_recent_index(LogWriter* writer) {
    const ResultRelInfo* target = writer->table.target;
    for (int i = 0; writer->columns.most_recent != 0 && i < target->ri_NumIndices; ++i) {
        Relation index = target->ri_IndexRelationDescs[i];
        const Form_pg_index form = index->rd_index;
        if (!form->indisunique || target->ri_IndexRelationInfo[i]->ii_Predicate == NIL ||
            form->indnkeyatts != writer->nkeys)
            continue;
        bool same = true;
        for (int key = 0; key < writer->nkeys; ++key) same &= form->indkey.values[key] == log_key_column(writer, key);
        if (same) return index;
    }
    return nullptr;
}

void prepare_defaults(LogWriter* writer) {
    Relation log = writer->table.log;
    TupleDesc descriptor = RelationGetDescr(log);
    writer->defaults = static_cast<ExprState**>(palloc0(sizeof(ExprState*) * descriptor->natts));
    for (int i = 0; i < descriptor->natts; ++i) {
        Form_pg_attribute attribute = TupleDescAttr(descriptor, i);
        if (attribute->attisdropped || attribute->attgenerated) continue;
        Expr* expression = reinterpret_cast<Expr*>(build_column_default(log, i + 1));
        if (expression != nullptr) writer->defaults[i] = ExecPrepareExpr(expression, writer->table.estate);
    }
}

// Prepares for entries in `table`, in batches where that is possible and `use` wants it.
LogWriter* begin(const LogTable& table, const LogLayout& layout, int nkeys, LogUse use) {
    auto* writer = static_cast<LogWriter*>(palloc0(sizeof(LogWriter)));
    Relation log = table.log;
    writer->table = table;
    writer->layout = layout;
    writer->nkeys = nkeys;
    writer->columns = find_columns(log, layout);
    writer->context = AllocSetContextCreate(CurrentMemoryContext, "pawl log batch", ALLOCSET_DEFAULT_SIZES);
    if (use == LogUse::append) choose_way(&writer->table, own_columns(writer));
    begin_search(&writer->newest_entries, log, layout, writer->columns, nkeys, writer->context);
    for (int i = 0; i < nkeys; ++i)  // the key column of a log from before the name was reserved
        if (log_key_column(writer, i) == writer->columns.placed) writer->columns.placed = 0;
    writer->table.most_recent_index = find_most_recent_index(writer);
    const int columns = RelationGetDescr(log)->natts;
    writer->values = static_cast<Datum*>(palloc0(sizeof(Datum) * columns));
    writer->nulls = static_cast<bool*>(palloc(sizeof(bool) * columns));
    writer->descriptor = CreateTupleDescCopyConstr(RelationGetDescr(log));
    writer->slots = static_cast<TupleTableSlot**>(palloc0(sizeof(TupleTableSlot*) * batch_size));
    if (!writer->table.many) prepare_defaults(writer);
    return writer;
}

}  // namespace

LogWriter* begin_log(Relation log, const LogLayout& layout, int nkeys, LogUse use) {
    LogWriter* writer = begin(open_log_table(log), layout, nkeys, use);
    begin_log_triggers(&writer->table);
    return writer;
}

LogWriter* begin_leaf(ResultRelInfo* target, EState* estate, TransitionCaptureState* capture, const LogLayout& layout,
                      int nkeys) {
    return begin(open_log_leaf(target, estate, capture), layout, nkeys, LogUse::append);
}

AttrNumber log_key_column(const LogWriter* writer, int key) {
    return writer->newest_entries.index->rd_index->indkey.values[key];
}

bool is_log_column(const LogWriter* writer, AttrNumber attribute) {
    const LogColumns& columns = writer->columns;
    for (AttrNumber ours :
         {columns.id, columns.sort_key, columns.from_state, columns.to_state, columns.event, columns.processor,
          columns.actor, columns.correlation_id, columns.metadata, columns.machine_version, columns.created_at,
          columns.most_recent, columns.hash, columns.salt, columns.salts, columns.placed})
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

// The entry that is being formed, in the arrays of the writer.
void set(LogWriter* writer, AttrNumber column, Datum value) {
    writer->values[column - 1] = value;
    writer->nulls[column - 1] = false;
}

void set_text(LogWriter* writer, AttrNumber column, const text* value) {
    writer->values[column - 1] = PointerGetDatum(value);
    writer->nulls[column - 1] = value == nullptr;
}

// Marks an entry that pawl.place makes. 55000: the log has no column for it.
void set_placed(LogWriter* writer, Placement* placement) {
    const AttrNumber column = writer->columns.placed;
    if (column > 0) set_text(writer, column, nullptr);
    if (placement == nullptr) return;
    if (column <= 0)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("log table \"%s\" has no column \"placed\"", RelationGetRelationName(writer->table.log)),
                        errhint("Call pawl.set_placing again.")));
    set_text(writer, column, placement->reason);
    ++placement->entries;
}

// Links an entry to the one before it in the hash chain of its row.
void set_hash(LogWriter* writer, const StateChange& change, const NewestEntry& newest) {
    bytea* salt = make_salt();
    set(writer, writer->columns.salt, PointerGetDatum(salt));
    writer->nulls[writer->columns.salts - 1] = true;
    bytea* hash = log_hash(change, writer->entry.sort_key, writer->entry.at, newest.hash, salt);
    set(writer, writer->columns.hash, PointerGetDatum(hash));
    if (change.then != nullptr) keep_hash(writer, hash);
}

}  // namespace

HeapTuple form_log_tuple(LogWriter* writer, const StateChange& change, const NewestEntry& newest) {
    const LogColumns& columns = writer->columns;
    TupleDesc descriptor = RelationGetDescr(writer->table.log);
    Datum* values = writer->values;
    bool* nulls = writer->nulls;
    memset(nulls, true, sizeof(bool) * descriptor->natts);

    for (int i = 0; writer->defaults != nullptr && i < descriptor->natts; ++i)
        if (writer->defaults[i] != nullptr)
            values[i] = ExecEvalExpr(writer->defaults[i], GetPerTupleExprContext(writer->table.estate), &nulls[i]);

    // The clock was read under the row's lock, so it is before the predecessor's time only if the clock was set back.
    const TimestampTz at = newest.found ? Max(change.at, newest.at) : change.at;
    const int sort_key = newest.found ? newest.sort_key + 1 : 1;
    if (newest.found && observer.left != nullptr) observer.left(change, at - newest.at);
    writer->entry.at = at;
    writer->entry.sort_key = sort_key;
    make_uuid_v7(at, &writer->entry.id);

    set(writer, columns.id, UUIDPGetDatum(&writer->entry.id));
    for (int i = 0; i < writer->nkeys; ++i) set(writer, log_key_column(writer, i), change.key[i]);
    set(writer, columns.sort_key, Int32GetDatum(sort_key));
    set_text(writer, columns.from_state, change.from);
    set_text(writer, columns.to_state, change.to);
    set_text(writer, columns.event, change.event);
    set_text(writer, columns.processor, change.processor);
    set_text(writer, columns.actor, change.actor);
    set_text(writer, columns.correlation_id, change.correlation_id);
    nulls[columns.metadata - 1] = change.metadata == nullptr;
    values[columns.metadata - 1] = JsonbPGetDatum(change.metadata);
    set(writer, columns.machine_version, Int32GetDatum(change.binding->machine->version));
    set(writer, columns.created_at, TimestampTzGetDatum(at));
    // The next entry of the row is written in the same batch, and could not clear the flag of a row that is not there.
    const bool most_recent = change.then == nullptr || !writer->table.many;
    if (columns.most_recent != 0) set(writer, columns.most_recent, BoolGetDatum(most_recent));
    if (columns.placed > 0 || change.placement != nullptr) set_placed(writer, change.placement);
    if (columns.hash != 0) set_hash(writer, change, newest);
    return heap_form_tuple(descriptor, values, nulls);
}

bool keeps_all_rows(const LogWriter* writer) {
    return writer->table.many;
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
        heap_modify_tuple_by_cols(newest.tuple, RelationGetDescr(writer->table.log), 1, &column, &value, &null);
    ItemPointerData at = newest.tuple->t_self;
#if PG_VERSION_NUM >= 160000
    TU_UpdateIndexes update_indexes;
    simple_heap_update(writer->table.log, &at, retired, &update_indexes);
#else
    simple_heap_update(writer->table.log, &at, retired);
#endif
    if (HeapTupleIsHeapOnly(retired)) return;
    TupleTableSlot* slot = writer->newest_entries.slot;
    ExecForceStoreHeapTuple(retired, slot, false);
    slot->tts_tid = retired->t_self;  // a buffer slot does not copy it from the tuple
    index_next_version(&writer->table, slot);
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
    slot->tts_tableOid = RelationGetRelid(writer->table.log);
    check_batched_row(writer->table, slot, writer->nulls);
    if (writer->nused == batch_size) flush_log(writer);
}

void flush_log(LogWriter* writer) {
    if (writer->nused > 0) {
        insert_log_rows(&writer->table, writer->slots, writer->nused);
        for (int i = 0; i < writer->nused; ++i) ExecClearTuple(writer->slots[i]);
        writer->nused = 0;
    }
    MemoryContextReset(writer->context);
}

void finish_log(LogWriter* writer) {
    flush_log(writer);
    for (int i = 0; i < writer->nslots; ++i) ExecDropSingleTupleTableSlot(writer->slots[i]);
    end_search(&writer->newest_entries);
    MemoryContextDelete(writer->context);
    close_log_table(&writer->table);
}

}  // namespace pawl
