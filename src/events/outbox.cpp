// May ereport; owns nothing. See outbox.hpp.
#include "events/outbox.hpp"

#include "events/outbox_epoch.hpp"

extern "C" {
#include "access/xlog.h"
#include "utils/pg_lsn.h"
}

namespace pawl {

namespace {

constexpr int batch_size = 512;

// The columns of pawl.outbox_1, in order.
enum Column {
    txid,
    at,
    n,
    relation,
    sort_key,
    machine_version,
    log_id,
    state_column,
    machine,
    key,
    from_state,
    to_state,
    event,
    processor,
    actor,
    correlation_id,
    metadata,
    n_columns
};

// Events that a subtransaction has written and that will count if it commits.
struct Tally {
    Tally* outer;
    SubTransactionId subtransaction;
    int64 events;
};

// What the transaction has written so far.
struct Outbox {
    int slot;    // 0: nothing yet; it stays the same until the transaction ends
    bool based;  // base is known
    uint64 base;
    int last_n;
    Tally* tallies;  // innermost first, in the transaction's memory
};

Outbox outbox = {};

// What the events of one binding have in common.
struct Source {
    const Binding* binding;
    Datum column;
    Datum machine;
    FmgrInfo* outputs;  // by key column
};

}  // namespace

struct OutboxWriter {
    Relation table;
    CatalogIndexState indexes;
    TupleDesc descriptor;  // of our own: the server counts references to a shared one, slowly when there are many
    MemoryContext lasting;
    MemoryContext batch;  // reset when it is written
    Datum txid;
    Source source;
    TupleTableSlot** slots;
    int nslots;
    int nused;
};

namespace {

// The number that tells this transaction from all others the outbox has seen.
uint64 transaction_number() {
    return outbox.base + U64FromFullTransactionId(GetTopFullTransactionId());
}

void count_event() {
    const SubTransactionId current = GetCurrentSubTransactionId();
    if (outbox.tallies == nullptr || outbox.tallies->subtransaction != current) {
        auto* tally = static_cast<Tally*>(MemoryContextAllocZero(TopTransactionContext, sizeof(Tally)));
        tally->subtransaction = current;
        tally->outer = outbox.tallies;
        outbox.tallies = tally;
    }
    ++outbox.tallies->events;
}

OutboxWriter* begin_outbox() {
    if (!outbox.based) outbox.base = outbox_base(Mark::leave);
    outbox.based = true;
    if (outbox.slot == 0) outbox.slot = current_outbox_slot();
    auto* writer = static_cast<OutboxWriter*>(palloc0(sizeof(OutboxWriter)));
    writer->table = open_outbox("outbox", outbox.slot, RowExclusiveLock);
    writer->indexes = CatalogOpenIndexes(writer->table);
    writer->descriptor = CreateTupleDescCopy(RelationGetDescr(writer->table));
    writer->lasting = CurrentMemoryContext;
    writer->batch = AllocSetContextCreate(CurrentMemoryContext, "pawl events", ALLOCSET_DEFAULT_SIZES);
    writer->txid = UInt64GetDatum(transaction_number());
    writer->slots = static_cast<TupleTableSlot**>(palloc0(sizeof(TupleTableSlot*) * batch_size));
    return writer;
}

void turn_to(OutboxWriter* writer, const Binding& binding) {
    if (writer->source.binding == &binding) return;
    MemoryContext caller = MemoryContextSwitchTo(writer->lasting);
    writer->source.binding = &binding;
    writer->source.column = CStringGetTextDatum(NameStr(binding.column));
    writer->source.machine = CStringGetTextDatum(binding.machine->name);
    writer->source.outputs = static_cast<FmgrInfo*>(palloc0(sizeof(FmgrInfo) * binding.nkeys));
    for (int i = 0; i < binding.nkeys; ++i) {
        Oid output;
        bool varlena;
        getTypeOutputInfo(binding.keys[i].type, &output, &varlena);
        fmgr_info(output, &writer->source.outputs[i]);
    }
    MemoryContextSwitchTo(caller);
}

// Key values in the form that every session gives them.
Datum key_texts(const OutboxWriter* writer, const StateChange& change) {
    const Binding& binding = *change.binding;
    Datum values[INDEX_MAX_KEYS];
    for (int i = 0; i < binding.nkeys; ++i) {
        const KeyColumn& column = binding.keys[i];
        values[i] = CStringGetTextDatum(has_one_text(column.type)
                                            ? OutputFunctionCall(&writer->source.outputs[i], change.key[i])
                                            : fixed_text(column.type, change.key[i]));
    }
    return PointerGetDatum(construct_array(values, binding.nkeys, TEXTOID, -1, false, TYPALIGN_INT));
}

HeapTuple form_event(const OutboxWriter* writer, const StateChange& change, const LogEntry* entry) {
    Datum values[n_columns];
    bool nulls[n_columns] = {};
    auto set_text = [&](Column column, const text* value) {
        values[column] = PointerGetDatum(value);
        nulls[column] = value == nullptr;
    };
    values[txid] = writer->txid;
    values[at] = TimestampTzGetDatum(entry != nullptr ? entry->at : change.at);
    values[n] = Int32GetDatum(outbox.last_n);
    values[relation] = ObjectIdGetDatum(change.binding->root);
    values[sort_key] = Int32GetDatum(entry != nullptr ? entry->sort_key : 0);
    values[machine_version] = Int32GetDatum(change.binding->machine->version);
    values[log_id] = UUIDPGetDatum(entry != nullptr ? &entry->id : nullptr);
    nulls[sort_key] = nulls[log_id] = entry == nullptr;
    values[state_column] = writer->source.column;
    values[machine] = writer->source.machine;
    values[key] = key_texts(writer, change);
    set_text(from_state, change.from);
    set_text(to_state, change.to);
    set_text(event, change.event);
    set_text(processor, change.processor);
    set_text(actor, change.actor);
    set_text(correlation_id, change.correlation_id);
    values[metadata] = JsonbPGetDatum(change.metadata);
    nulls[metadata] = change.metadata == nullptr;
    return heap_form_tuple(RelationGetDescr(writer->table), values, nulls);
}

void write_batch(OutboxWriter* writer) {
    CatalogTuplesMultiInsertWithInfo(writer->table, writer->slots, writer->nused, writer->indexes);
    for (int i = 0; i < writer->nused; ++i) ExecClearTuple(writer->slots[i]);
    writer->nused = 0;
    MemoryContextReset(writer->batch);
}

}  // namespace

void append_event(OutboxWriter** made, const StateChange& change, const LogEntry* entry) {
    if (*made == nullptr) *made = begin_outbox();
    OutboxWriter* writer = *made;
    turn_to(writer, *change.binding);
    if (outbox.last_n == PG_INT32_MAX)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("more than %d events in one transaction", PG_INT32_MAX)));
    ++outbox.last_n;
    count_event();
    MemoryContext caller = MemoryContextSwitchTo(writer->batch);
    HeapTuple tuple = form_event(writer, change, entry);
    MemoryContextSwitchTo(writer->lasting);
    if (writer->nused == writer->nslots)
        writer->slots[writer->nslots++] = MakeSingleTupleTableSlot(writer->descriptor, &TTSOpsHeapTuple);
    MemoryContextSwitchTo(caller);
    TupleTableSlot* slot = writer->slots[writer->nused++];
    ExecStoreHeapTuple(tuple, slot, false);
    slot->tts_tableOid = RelationGetRelid(writer->table);
    if (writer->nused == batch_size) write_batch(writer);
}

void finish_outbox(OutboxWriter* writer) {
    if (writer == nullptr) return;
    if (writer->nused > 0) write_batch(writer);
    for (int i = 0; i < writer->nslots; ++i) ExecDropSingleTupleTableSlot(writer->slots[i]);
    CatalogCloseIndexes(writer->indexes);
    table_close(writer->table, NoLock);
    MemoryContextDelete(writer->batch);
}

// The end of the write-ahead log is read here, before this transaction's commit record: whoever begins to commit after
// that record is there reads a higher one. No clock could be trusted to do that.
bool seal_outbox() {
    int64 events = 0;
    for (const Tally* tally = outbox.tallies; tally != nullptr; tally = tally->outer) events += tally->events;
    if (events == 0) return false;
    Relation table = open_outbox("outbox_commit", outbox.slot, RowExclusiveLock);
    const bool nulls[4] = {};
    Datum values[4] = {UInt64GetDatum(transaction_number()), LSNGetDatum(outbox.base + GetXLogInsertRecPtr()),
                       TimestampTzGetDatum(GetCurrentTimestamp()), Int64GetDatum(events)};
    CatalogTupleInsert(table, heap_form_tuple(RelationGetDescr(table), values, const_cast<bool*>(nulls)));
    table_close(table, NoLock);
    return true;
}

void forget_outbox() noexcept {
    outbox = {};
}

void drop_events_of(SubTransactionId subtransaction) noexcept {
    while (outbox.tallies != nullptr && outbox.tallies->subtransaction >= subtransaction)
        outbox.tallies = outbox.tallies->outer;
    outbox.based = false;  // the mark of the epoch may be undone with it
}

void reassign_events(SubTransactionId from, SubTransactionId to) noexcept {
    Tally* tally = outbox.tallies;
    if (tally == nullptr || tally->subtransaction != from) return;
    if (tally->outer != nullptr && tally->outer->subtransaction == to) {
        tally->outer->events += tally->events;
        outbox.tallies = tally->outer;
    } else {
        tally->subtransaction = to;
    }
}

}  // namespace pawl
