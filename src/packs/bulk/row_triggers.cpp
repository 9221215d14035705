// May throw and may ereport: the triggers of updates of records and work. They decide in C++ which PL/pgSQL functions a
// row or a statement needs, and call these.
#include <optional>

#include "events/wake.hpp"
#include "guard/listed_events.hpp"
#include "pg/index_look.hpp"
#include "pg/row_trigger.hpp"

namespace pawl {

namespace {

enum class RecordColumn { state, tries, started_at, completed_at, error_type, error_message };
pg::Table<6> records = {
    "pawl_bulk", "records", {"state", "tries", "started_at", "completed_at", "error_type", "error_message"}, {}};

enum class WorkColumn { state, kind, queue, takeovers, deadline_at, run_timeout, due, held };
pg::Table<8> work = {
    "pawl_bulk", "work", {"state", "kind", "queue", "takeovers", "deadline_at", "run_timeout", "due", "held"}, {}};

using RecordUpdate = pg::Update<RecordColumn, 6>;
using WorkUpdate = pg::Update<WorkColumn, 8>;

bool has_failed(std::string_view state) {
    return state == "Failed" || state == "TimedOut";
}

// Whether a record is changed in a way that needs a right, or that no function makes.
bool needs_right(const RecordUpdate& record) {
    const int tried =
        DatumGetInt16(record.value(RecordColumn::tries)) - DatumGetInt16(record.old_value(RecordColumn::tries));
    const bool changes_times = record.changes_any(RecordColumn::started_at, RecordColumn::completed_at);
    if (record.changes_state()) return record.is("Pending") || record.is("Cancelled") || (tried != 0 && tried != 1);
    return changes_times || (tried != 0 && tried != 1) ||
           (!record.was("Running") &&
            record.changes_any(RecordColumn::tries, RecordColumn::error_type, RecordColumn::error_message));
}

// Whether the statement leaves out what the record remembers of the state that it enters.
bool leaves_out(const RecordUpdate& record) {
    if (!record.changes_state()) return false;
    if (record.is("Pending")) return true;
    if (record.is("WaitingForCompletion"))
        return record.has(RecordColumn::completed_at) || record.has(RecordColumn::error_type) ||
               record.has(RecordColumn::error_message);
    if (record.is("Running")) return !record.has(RecordColumn::started_at);
    const bool has_error = record.has(RecordColumn::error_type);
    return !record.has(RecordColumn::completed_at) || has_failed(record.new_state()) != has_error ||
           (!has_error && record.has(RecordColumn::error_message));
}

bool is(const WorkUpdate& row, WorkColumn column, std::string_view expected) {
    return row.has(column) && pg::view(DatumGetTextPP(row.value(column))) == expected;
}

bool is_claimed(const WorkUpdate& row) {
    return row.is("leased") && !row.was("leased");
}

// Whether work is claimed that is perhaps not to be claimed now, or not by workers.
bool may_not_be_claimed(const WorkUpdate& row) {
    return is_claimed(row) &&
           (row.old_flag(WorkColumn::held) || is(row, WorkColumn::queue, "sql:") ||
            (row.had(WorkColumn::due) && DatumGetTimestampTz(row.old_value(WorkColumn::due)) > GetCurrentTimestamp()));
}

// Whether a time is set that does not follow from a claim, a report or a lost worker alone.
bool sets_times(const WorkUpdate& row) {
    constexpr TimestampTz hour = SECS_PER_HOUR * USECS_PER_SEC;
    if (row.changes(WorkColumn::deadline_at)) return true;
    if (DatumGetInt32(row.value(WorkColumn::takeovers)) < DatumGetInt32(row.old_value(WorkColumn::takeovers)))
        return true;
    if (!row.changes(WorkColumn::due)) return false;
    return row.had(WorkColumn::due) || !row.changes_state() || row.is("leased") ||
           DatumGetTimestampTz(row.value(WorkColumn::due)) > GetCurrentTimestamp() + hour;
}

bool begins_attempt(const WorkUpdate& row) {
    return row.is("leased") && is(row, WorkColumn::kind, "start") && row.has(WorkColumn::run_timeout) &&
           !row.has(WorkColumn::deadline_at);
}

// What the next function makes of the row that the one before it has made.
void fire_next(TriggerData& trigger, const WorkUpdate& row, const char* function) {
    trigger.tg_newtuple = row.fire(function);
}

// The states of the rows of a statement.
struct Written {
    bool rests;
    bool retries;  // a try that failed may have been written
    bool waits;
    bool is_reset;
    bool had_failed;
    bool begins;                       // one that was Pending may be Running
    std::optional<pg_uuid_t> at_rest;  // the operation of one that came to rest, if the columns could be read
};

template <typename Visit>
void visit_rows(Tuplestorestate* rows, TupleDesc descriptor, Visit visit) {
    tuplestore_select_read_pointer(rows, tuplestore_alloc_read_pointer(rows, EXEC_FLAG_REWIND));
    tuplestore_rescan(rows);
    TupleTableSlot* row = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);
    while (tuplestore_gettupleslot(rows, true, false, row)) visit(row);
    tuplestore_select_read_pointer(rows, 0);
    ExecDropSingleTupleTableSlot(row);
}

// Ereports.
Written look_at_written(const TriggerData& trigger) {
    TupleDesc descriptor = RelationGetDescr(trigger.tg_relation);
    int numbers[5];
    static constexpr const char* columns[] = {"state", "tries", "error_message", "operation", "error_type"};
    for (int i = 0; i < 5; ++i) {
        numbers[i] = SPI_fnumber(descriptor, columns[i]);
        if (numbers[i] <= 0) return {true, true, true, true, true, true, {}};
    }
    const auto state_of = [&](TupleTableSlot* row) {
        bool null;
        const Datum value = slot_getattr(row, numbers[0], &null);
        return null ? std::string_view() : pg::view(DatumGetTextPP(value));
    };
    Written written = {};
    bool runs = false;
    visit_rows(trigger.tg_newtable, descriptor, [&](TupleTableSlot* row) {
        const std::string_view state = state_of(row);
        bool null;
        if (state == "Pending") {
            written.is_reset = true;
        } else if (state == "Running") {
            runs = true;
            written.retries |= DatumGetInt16(slot_getattr(row, numbers[1], &null)) > 0 ||
                               !slot_attisnull(row, numbers[2]) || !slot_attisnull(row, numbers[4]);
        } else {
            written.rests = true;
            if (!written.at_rest) written.at_rest = *DatumGetUUIDP(slot_getattr(row, numbers[3], &null));
            written.waits |= state == "WaitingForCompletion";
        }
    });
    visit_rows(trigger.tg_oldtable, descriptor, [&](TupleTableSlot* row) {
        const std::string_view state = state_of(row);
        written.had_failed |= has_failed(state);
        written.begins |= runs && state == "Pending";
    });
    return written;
}

// Whether the operation has no work any more, or perhaps none: the last row is done last as a rule, so an operation
// that has work shows it at once. Then the duty ends it.
bool may_end(const pg_uuid_t& operation) {
    constexpr int most_looked_at = 100;
    Relation table = table_open(get_relname_relid("work", get_namespace_oid("pawl_bulk", false)), AccessShareLock);
    const pg::Seen seen = pg::look_from_last(table, "work_pkey", UUIDPGetDatum(&operation), most_looked_at);
    table_close(table, AccessShareLock);
    return seen != pg::Seen::some;
}

}  // namespace

PAWL_FUNCTION(pawl_bulk_record_written) {
    TriggerData& trigger = pg::trigger_of(fcinfo, records);
    require_one_transition(trigger.tg_relation);
    return pg::call([&] {
        const RecordUpdate record(fcinfo, trigger, records);
        if (needs_right(record)) record.fire("_record_by_sql");
        return PointerGetDatum(leaves_out(record) ? record.fire("_record_entered") : trigger.tg_newtuple);
    });
}

PAWL_FUNCTION(pawl_bulk_work_written) {
    TriggerData& trigger = pg::trigger_of(fcinfo, work);
    require_one_transition(trigger.tg_relation);
    return pg::call([&] {
        const WorkUpdate row(fcinfo, trigger, work);
        const bool counts = row.changes_state() && (row.is("lost") || begins_attempt(row));
        if (sets_times(row) || may_not_be_claimed(row)) fire_next(trigger, row, "_work_by_sql");
        if (counts) fire_next(trigger, row, "_work_taken");
        return PointerGetDatum(trigger.tg_newtuple);
    });
}

PAWL_FUNCTION(pawl_bulk_records_written) {
    const TriggerData& trigger = pg::trigger_of(fcinfo, records, pg::Moment::after_statement);
    return pg::call([&] {
        const Written written = look_at_written(trigger);
        if (written.begins && GetUserId() != trigger.tg_relation->rd_rel->relowner &&
            !pg::answer_of("pawl_bulk", "_operates"))
            pg::fire_as(fcinfo, "pawl_bulk", "_records_by_sql");
        if (written.rests || written.retries || written.had_failed) pg::fire_as(fcinfo, "pawl_bulk", "_records_rest");
        if (written.at_rest && may_end(*written.at_rest)) note_wake(events_channel);
        if (written.is_reset && written.had_failed) pg::fire_as(fcinfo, "pawl_bulk", "_records_reset");
        return written.waits ? pg::fire_as(fcinfo, "pawl_bulk", "_records_wait") : static_cast<Datum>(0);
    });
}

}  // namespace pawl
