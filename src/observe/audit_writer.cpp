// May ereport; owns nothing. See audit_writer.hpp. It writes what pawl._audit_statement does.
#include "observe/audit_writer.hpp"

#include "log/layout.hpp"
#include "log/log_table.hpp"
#include "pg/index_look.hpp"
#include "pg/texts.hpp"
#include "pg/uuid_v7.hpp"

extern "C" {
#include "utils/tuplestore.h"
}

namespace pawl {

namespace {

constexpr int batch_size = 256;

// The columns of a log that are read.
struct Source {
    AttrNumber id, sort_key, from_state, to_state, event, processor, correlation_id, metadata, created_at;
};

// The columns of an audit beside those of the key.
struct Columns {
    AttrNumber audit_id, transition_id, recorded_at, worker, correlation_id, success, execution_time_ms, state;
};

Source find_source(Relation log) {
    return {typed_column(log, "id", UUIDOID),
            typed_column(log, "sort_key", INT4OID),
            typed_column(log, "from_state", TEXTOID),
            typed_column(log, "to_state", TEXTOID),
            typed_column(log, "event", TEXTOID),
            typed_column(log, "processor", TEXTOID),
            typed_column(log, "correlation_id", TEXTOID),
            typed_column(log, "metadata", JSONBOID),
            typed_column(log, "created_at", TIMESTAMPTZOID)};
}

Columns find_audit_columns(Relation audit) {
    return {typed_column(audit, "audit_id", UUIDOID),           typed_column(audit, "transition_id", UUIDOID),
            typed_column(audit, "recorded_at", TIMESTAMPTZOID), typed_column(audit, "worker", TEXTOID),
            typed_column(audit, "correlation_id", TEXTOID),     typed_column(audit, "success", BOOLOID),
            typed_column(audit, "execution_time_ms", INT8OID),  typed_column(audit, "state", TEXTOID)};
}

// Finds earlier entries of a subject by the primary key of the log.
struct Search {
    Relation index;
    IndexScanDesc scan;
    ScanKeyData keys[INDEX_MAX_KEYS + 1];
    int nkeys;  // without the sort key
    TupleTableSlot* slot;
};

Search begin_search(Relation log, int nkeys) {
    Search search = {};
    search.nkeys = nkeys;
    search.index = index_open(pg::primary_key_index(log), AccessShareLock);
    pg::prepare_key_scan(search.index, nkeys, search.keys);
    ScanKeyInit(&search.keys[nkeys], nkeys + 1, BTLessStrategyNumber, F_INT4LT, static_cast<Datum>(0));
    search.scan = pg::begin_index_scan(log, search.index, SnapshotSelf, nkeys + 1);
    search.slot = table_slot_create(log, nullptr);
    return search;
}

void end_search(Search& search) {
    index_endscan(search.scan);
    ExecDropSingleTupleTableSlot(search.slot);
    index_close(search.index, NoLock);
}

std::string_view text_in(TupleTableSlot* slot, AttrNumber column, bool* null) {
    const Datum value = slot_getattr(slot, column, null);
    return *null ? std::string_view() : pg::view(DatumGetTextPP(value));
}

// The entry by which a row was taken.
struct Taken {
    bool found;
    TimestampTz at;
};

// When the row of an entry was taken, in this life of it: by the last entry before that leads into the owned states
// from outside. If no state is owned, or none was, the entry before counts.
Taken taken_at(Search& search, const Source& source, const AuditedStates& owned, TupleTableSlot* entry,
               const AttrNumber* keys) {
    bool null;
    for (int i = 0; i < search.nkeys; ++i) search.keys[i].sk_argument = slot_getattr(entry, keys[i], &null);
    const int32 sort_key = DatumGetInt32(slot_getattr(entry, source.sort_key, &null));
    search.keys[search.nkeys].sk_argument = Int32GetDatum(sort_key);
    index_rescan(search.scan, search.keys, search.nkeys + 1, nullptr, 0);
    Taken before = {};
    for (TupleTableSlot* slot = search.slot; index_getnext_slot(search.scan, BackwardScanDirection, slot);) {
        bool deleted, initial;
        const std::string_view to = text_in(slot, source.to_state, &deleted);
        if (deleted) break;
        const std::string_view from = text_in(slot, source.from_state, &initial);
        const Taken here = {true, DatumGetTimestampTz(slot_getattr(slot, source.created_at, &null))};
        if (owned.contains(to) && (initial || !owned.contains(from))) return here;
        if (DatumGetInt32(slot_getattr(slot, source.sort_key, &null)) == sort_key - 1) before = here;
        if (owned.n == 0) break;
    }
    return before;
}

// The execution time in milliseconds: as the metadata says, else since the row was taken. Returns false if neither.
bool execution_time(Search& search, const Source& source, const AuditedResults& results, TupleTableSlot* entry,
                    int64* milliseconds) {
    bool null;
    const Datum metadata = slot_getattr(entry, source.metadata, &null);
    for (int path = 0; !null && path < time_paths; ++path) {
        const JsonbValue value = time_at(DatumGetJsonbP(metadata), path);
        if (value.type != jbvNumeric) continue;
        *milliseconds = DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(value.val.numeric)));
        return true;
    }
    const Taken taken = taken_at(search, source, results.owned, entry, results.columns.log_keys);
    if (!taken.found) return false;
    const int64 microseconds = DatumGetTimestampTz(slot_getattr(entry, source.created_at, &null)) - taken.at;
    *milliseconds = microseconds / 1000 - (microseconds % 1000 < 0 ? 1 : 0);
    return true;
}

// Whether the row entered its state by no transition, so that there is no result.
bool took_no_transition(TupleTableSlot* entry, const Source& source) {
    bool null;
    const std::string_view event = text_in(entry, source.event, &null);
    return event == "pawl.upgrade" || event == "pawl.place";
}

// Rows on their way into an audit.
struct Writer {
    LogTable table;
    Columns columns;
    TupleDesc descriptor;
    TupleTableSlot** slots;
    Datum* values;
    bool* nulls;
    int nslots;
    int nused;

    void set(AttrNumber column, Datum value, bool null = false) {
        values[column - 1] = value;
        nulls[column - 1] = null;
    }

    void copy(AttrNumber column, TupleTableSlot* entry, AttrNumber from) {
        values[column - 1] = slot_getattr(entry, from, &nulls[column - 1]);
    }

    void flush() {
        if (nused == 0) return;
        insert_log_rows(&table, slots, nused);
        for (int i = 0; i < nused; ++i) ExecClearTuple(slots[i]);
        nused = 0;
    }

    void add() {
        if (nused == batch_size) flush();
        if (nused == nslots) slots[nslots++] = MakeSingleTupleTableSlot(descriptor, &TTSOpsHeapTuple);
        TupleTableSlot* slot = slots[nused++];
        ExecStoreHeapTuple(heap_form_tuple(descriptor, values, nulls), slot, true);
        slot->tts_tableOid = RelationGetRelid(table.log);
        check_batched_row(table, slot, nulls);
    }
};

Writer begin_writing(Relation audit) {
    Writer writer = {};
    writer.table = open_log_table(audit);
    writer.columns = find_audit_columns(audit);
    writer.descriptor = CreateTupleDescCopyConstr(RelationGetDescr(audit));
    writer.slots = static_cast<TupleTableSlot**>(palloc(sizeof(TupleTableSlot*) * batch_size));
    writer.values = static_cast<Datum*>(palloc0(sizeof(Datum) * writer.descriptor->natts));
    writer.nulls = static_cast<bool*>(palloc(sizeof(bool) * writer.descriptor->natts));
    return writer;
}

void end_writing(Writer& writer) {
    writer.flush();
    for (int i = 0; i < writer.nslots; ++i) ExecDropSingleTupleTableSlot(writer.slots[i]);
    close_log_table(&writer.table);
}

void write_result(Writer& writer, Search& search, const Source& source, const AuditedResults& results,
                  TupleTableSlot* entry, bool success) {
    const Columns& columns = writer.columns;
    memset(writer.nulls, true, sizeof(bool) * writer.descriptor->natts);
    for (int i = 0; i < results.columns.nkeys; ++i)
        writer.copy(results.columns.audit_keys[i], entry, results.columns.log_keys[i]);
    pg_uuid_t id;
    make_uuid_v7(GetCurrentTimestamp(), &id);
    writer.set(columns.audit_id, UUIDPGetDatum(&id));
    writer.copy(columns.transition_id, entry, source.id);
    writer.copy(columns.recorded_at, entry, source.created_at);
    writer.copy(columns.worker, entry, source.processor);
    writer.copy(columns.correlation_id, entry, source.correlation_id);
    writer.set(columns.success, BoolGetDatum(success));
    int64 milliseconds = 0;
    const bool timed = execution_time(search, source, results, entry, &milliseconds);
    writer.set(columns.execution_time_ms, Int64GetDatum(milliseconds), !timed);
    writer.copy(columns.state, entry, source.to_state);
    writer.add();
}

}  // namespace

bool AuditedStates::contains(std::string_view name) const {
    for (int i = 0; i < n; ++i)
        if (pg::view(DatumGetTextPP(names[i])) == name) return true;
    return false;
}

JsonbValue value_at(Jsonb* metadata, std::initializer_list<const char*> path) {
    JsonbValue value = {};
    JsonbContainer* container = &metadata->root;
    for (const char* key : path) {
        JsonbValue found;
        if (!JsonContainerIsObject(container) ||
            getKeyJsonValueFromContainer(container, key, static_cast<int>(strlen(key)), &found) == nullptr) {
            value.type = jbvNull;
            return value;
        }
        value = found;
        static JsonbContainer nothing = {};
        container = found.type == jbvBinary ? found.val.binary.data : &nothing;
    }
    return value;
}

JsonbValue time_at(Jsonb* metadata, int path) {
    switch (path) {
        case 0:
            return value_at(metadata, {"execution_time_ms"});
        case 1:
            return value_at(metadata, {"metadata", "execution_time_ms"});
        case 2:
            return value_at(metadata, {"result", "execution_time_ms"});
        default:
            return value_at(metadata, {"result", "metadata", "execution_time_ms"});
    }
}

void write_audit(const AuditedResults& results) {
    Relation audit = table_open(results.audit, RowExclusiveLock);
    const Source source = find_source(results.log);
    Writer writer = begin_writing(audit);
    Search search = begin_search(results.log, results.columns.nkeys);
    TupleTableSlot* entry = MakeSingleTupleTableSlot(RelationGetDescr(results.log), &TTSOpsMinimalTuple);
    tuplestore_select_read_pointer(results.entries, tuplestore_alloc_read_pointer(results.entries, EXEC_FLAG_REWIND));
    tuplestore_rescan(results.entries);
    while (tuplestore_gettupleslot(results.entries, true, false, entry)) {
        bool null;
        const std::string_view state = text_in(entry, source.to_state, &null);
        const bool success = results.successes.contains(state);
        if (null || took_no_transition(entry, source) || (!success && !results.failures.contains(state))) continue;
        write_result(writer, search, source, results, entry, success);
    }
    tuplestore_select_read_pointer(results.entries, 0);
    ExecDropSingleTupleTableSlot(entry);
    end_search(search);
    end_writing(writer);
    table_close(audit, NoLock);
    CommandCounterIncrement();
}

}  // namespace pawl
