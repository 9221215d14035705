// May throw and may ereport: the triggers of updates of tasks and steps. Each decides in C++ which checks a row
// needs and calls their PL/pgSQL functions. Conditions of triggers would be read from text by each statement that
// writes a row, which takes longer than the checks.
#include "packs/dag/orchestrating.hpp"
#include "pg/arguments.hpp"

namespace pawl {

namespace {

// A table of the pack, and the columns that its trigger reads.
template <int n>
struct Table {
    const char* name;
    const char* columns[n];
    AttrNumber numbers[n];  // where the columns were in the last row
};

enum class TaskColumn { state, evaluate, entered_at, watch_at, deadline_at, stale_after, failed, counters };
Table<14> tasks = {
    "tasks",
    {"state", "evaluate", "entered_at", "watch_at", "deadline_at", "stale_after", "steps_failed", "steps_total",
     "steps_blocked", "steps_ready", "steps_in_flight", "steps_waiting", "steps_satisfied", "steps_cancelled"},
    {}};

enum class StepColumn {
    state,
    permanent,
    retryable,
    attempts,
    max_attempts,
    last_attempted_at,
    last_failure_at,
    backoff_request,
    next_retry_at,
    result,
    error,
    queue,
    unsatisfied_parents,
    total_parents,
    level
};
Table<15> steps = {"steps",
                   {"state", "permanent", "retryable", "attempts", "max_attempts", "last_attempted_at",
                    "last_failure_at", "backoff_request", "next_retry_at", "result", "error", "namespace",
                    "unsatisfied_parents", "total_parents", "level"},
                   {}};

// The schema is the extension's, so that no other table has this name. Ereports.
bool is_table(Relation relation, const char* name) {
    const Oid schema = get_namespace_oid("pawl_dag", true);
    if (!OidIsValid(schema)) return false;
    const Oid table = get_relname_relid(name, schema);
    return RelationGetRelid(relation) == table ||
           (relation->rd_rel->relispartition &&
            list_member_oid(get_partition_ancestors(RelationGetRelid(relation)), table));
}

enum class Moment { before_row, after_statement };

// Throws 39P01 if the function is called in any other way than by the pack's trigger.
template <int n>
TriggerData& trigger_of(FunctionCallInfo fcinfo, const Table<n>& table, Moment moment = Moment::before_row) {
    auto* trigger = CALLED_AS_TRIGGER(fcinfo) ? reinterpret_cast<TriggerData*>(fcinfo->context) : nullptr;
    const bool before_row = moment == Moment::before_row;
    if (trigger == nullptr || !TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ||
        TRIGGER_FIRED_BEFORE(trigger->tg_event) != before_row ||
        (TRIGGER_FIRED_FOR_ROW(trigger->tg_event) != 0) != before_row ||
        (!before_row && (trigger->tg_newtable == nullptr || trigger->tg_oldtable == nullptr)))
        throw pg::Failure(
            ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
            before_row ? "this trigger function must be fired BEFORE UPDATE ROW"
                       : "this trigger function must be fired AFTER UPDATE STATEMENT, with both transition tables");
    if (!pg::call([&] { return is_table(trigger->tg_relation, table.name); }))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                          "this trigger function cannot be used on table \"" +
                              std::string(RelationGetRelationName(trigger->tg_relation)) + "\"",
                          "It is fired by pawl_dag." + std::string(table.name) + " only.", "Drop the trigger.");
    return *trigger;
}

// Calls a trigger function of the pack as if it had been fired itself. Ereports.
Datum fire_as(FunctionCallInfo fcinfo, const char* function) {
    FmgrInfo called;
    fmgr_info(
        LookupFuncName(list_make2(makeString(pstrdup("pawl_dag")), makeString(pstrdup(function))), 0, nullptr, false),
        &called);
    LOCAL_FCINFO(inner, 0);
    InitFunctionCallInfoData(*inner, &called, 0, InvalidOid, fcinfo->context, nullptr);
    return FunctionCallInvoke(inner);
}

// The two versions of a row that is updated. Ereports.
template <typename Column, int n>
class Update {
public:
    Update(FunctionCallInfo fcinfo, TriggerData& trigger, Table<n>& table)
        : fcinfo_(fcinfo),
          trigger_(trigger),
          descriptor_(RelationGetDescr(trigger.tg_relation)),
          numbers_(table.numbers),
          old_state_(),
          new_state_() {
        find_columns(table);
        old_state_ = state_in(trigger.tg_trigslot);
        new_state_ = state_in(trigger.tg_newslot);
    }

    std::string_view old_state() const { return old_state_; }
    std::string_view new_state() const { return new_state_; }
    bool changes_state() const { return old_state_ != new_state_; }

    bool was(std::string_view state) const { return old_state_ == state; }
    bool is(std::string_view state) const { return new_state_ == state; }

    Datum value(Column column) const {
        bool null;
        return slot_getattr(trigger_.tg_newslot, number(column), &null);
    }

    bool old_flag(Column column) const {
        bool null;
        return DatumGetBool(slot_getattr(trigger_.tg_trigslot, number(column), &null));
    }

    bool has(Column column) const { return !slot_attisnull(trigger_.tg_newslot, number(column)); }

    // Whether a column has another value. Values that are equal but written in another form count as others: the
    // functions that are called compare them again.
    bool changes(Column column) const { return differs(number(column)); }

    template <typename... Columns>
    bool changes_any(Columns... columns) const {
        return (changes(columns) || ...);
    }

    // From this column on to the last that the table names.
    bool changes_from(Column first) const {
        for (int i = static_cast<int>(first); i < n; ++i)
            if (differs(numbers_[i])) return true;
        return false;
    }

    AttrNumber number(Column column) const { return numbers_[static_cast<int>(column)]; }

    HeapTuple fire(const char* function) const {
        return reinterpret_cast<HeapTuple>(DatumGetPointer(fire_as(fcinfo_, function)));
    }

private:
    std::string_view state_in(TupleTableSlot* row) const {
        bool null;
        const Datum value = slot_getattr(row, numbers_[0], &null);
        return null ? std::string_view() : pg::view(DatumGetTextPP(value));
    }

    bool is_column(AttrNumber number, const char* name) const {
        return number > 0 && number <= descriptor_->natts &&
               strcmp(NameStr(TupleDescAttr(descriptor_, number - 1)->attname), name) == 0;
    }

    void find_columns(Table<n>& table) const {
        for (int i = 0; i < n; ++i) {
            if (is_column(table.numbers[i], table.columns[i])) continue;
            table.numbers[i] = SPI_fnumber(descriptor_, table.columns[i]);
            if (table.numbers[i] <= 0)
                ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                                errmsg("column \"%s\" of table \"%s\" does not exist", table.columns[i], table.name)));
        }
        if (TupleDescAttr(descriptor_, table.numbers[0] - 1)->atttypid != TEXTOID)
            ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                            errmsg("column \"state\" of table \"%s\" must be of type text", table.name)));
    }

    bool differs(AttrNumber number) const {
        bool was_null, is_null;
        const Datum before = slot_getattr(trigger_.tg_trigslot, number, &was_null);
        const Datum after = slot_getattr(trigger_.tg_newslot, number, &is_null);
        if (was_null || is_null) return was_null != is_null;
        const FormData_pg_attribute* column = TupleDescAttr(descriptor_, number - 1);
        if (column->attbyval) return before != after;
        const auto* one = reinterpret_cast<const char*>(DatumGetPointer(before));
        const auto* other = reinterpret_cast<const char*>(DatumGetPointer(after));
        if (column->attlen > 0) return memcmp(one, other, column->attlen) != 0;
        // what is stored elsewhere is not fetched to see that it is the same
        if (VARSIZE_ANY(one) == VARSIZE_ANY(other) && memcmp(one, other, VARSIZE_ANY(one)) == 0) return false;
        return !datum_image_eq(before, after, false, -1);
    }

    FunctionCallInfo fcinfo_;
    TriggerData& trigger_;
    TupleDesc descriptor_;
    const AttrNumber* numbers_;
    std::string_view old_state_;
    std::string_view new_state_;
};

using TaskUpdate = Update<TaskColumn, 14>;
using StepUpdate = Update<StepColumn, 15>;

bool is_final_or_still(std::string_view state) {
    return state == "pending" || state == "blocked_by_failures" || state == "complete" || state == "error" ||
           state == "cancelled" || state == "resolved_manually";
}

// Whether triggers keep what the statement sets.
bool writes_kept(const TaskUpdate& task) {
    return task.changes_any(TaskColumn::failed, TaskColumn::entered_at) || task.changes_from(TaskColumn::counters) ||
           (task.old_flag(TaskColumn::evaluate) && !DatumGetBool(task.value(TaskColumn::evaluate)));
}

bool needs_condition(const TaskUpdate& task) {
    return (task.was("evaluating_results") && task.is("blocked_by_failures") &&
            DatumGetInt32(task.value(TaskColumn::failed)) == 0) ||
           (task.was("enqueuing_steps") && task.is("error"));
}

bool is_operators(const TaskUpdate& task) {
    return task.changes_state() && (task.is("cancelled") || task.is("resolved_manually") || task.was("error") ||
                                    (task.was("blocked_by_failures") && task.is("error")) ||
                                    (task.is("blocked_by_failures") && !task.was("evaluating_results")));
}

// Whether the times of the task follow from the update. An orchestrator that leads a task back to its state sets the
// time of entry, from which no earlier time to look at the task can follow.
bool moves_times(const TaskUpdate& task, bool orchestrated) {
    if (task.changes_state())
        return !task.changes(TaskColumn::entered_at) || !task.has(TaskColumn::watch_at) ||
               is_final_or_still(task.new_state());
    return task.changes_any(TaskColumn::deadline_at, TaskColumn::stale_after) ||
           (task.changes(TaskColumn::entered_at) && !(orchestrated && task.has(TaskColumn::watch_at)));
}

HeapTuple check_task(const TaskUpdate& task, HeapTuple row, bool orchestrated) {
    if (!orchestrated && writes_kept(task)) task.fire("_task_by_sql");
    if (needs_condition(task)) task.fire("_needs_condition");
    if (is_operators(task)) task.fire("_operators_only");
    return moves_times(task, orchestrated) ? task.fire("_task_entered") : row;
}

// Its owner writes a result while it reports it.
bool is_reported(const StepUpdate& step) {
    return step.was("in_progress") &&
           (step.is("enqueued_for_orchestration") || step.is("enqueued_as_error_for_orchestration"));
}

bool writes_kept(const StepUpdate& step) {
    if (step.changes(StepColumn::next_retry_at) || step.changes_from(StepColumn::unsatisfied_parents)) return true;
    return !is_reported(step) &&
           step.changes_any(StepColumn::permanent, StepColumn::backoff_request, StepColumn::result, StepColumn::error);
}

bool needs_condition(const StepUpdate& step) {
    if (!step.is("error")) return false;
    if (step.was("pending") || step.was("enqueued") || step.was("enqueued_for_orchestration")) return true;
    return (step.was("in_progress") || step.was("enqueued_as_error_for_orchestration")) &&
           DatumGetBool(step.value(StepColumn::retryable)) && !DatumGetBool(step.value(StepColumn::permanent)) &&
           DatumGetInt32(step.value(StepColumn::attempts)) < DatumGetInt32(step.value(StepColumn::max_attempts));
}

// By hand a step takes one transition at a time: lists of events are the orchestrator's.
bool is_enqueued(const StepUpdate& step) {
    return step.was("pending") && step.is("enqueued");
}

// Whether the work of a SQL function begins or ends.
bool is_work_of_sql(const StepUpdate& step) {
    return (step.was("in_progress") || step.is("in_progress")) && step.has(StepColumn::queue) &&
           pg::view(DatumGetTextPP(step.value(StepColumn::queue))) == "sql:";
}

bool runs_sql() {
    return DatumGetBool(OidFunctionCall0(LookupFuncName(
        list_make2(makeString(pstrdup("pawl_dag")), makeString(pstrdup("_runs_sql"))), 0, nullptr, false)));
}

bool is_operators(const StepUpdate& step) {
    return step.changes_state() && (step.is("cancelled") || step.is("resolved_manually") || step.was("error") ||
                                    (step.is("complete") && !step.was("enqueued_for_orchestration")));
}

struct Changes {
    int n = 0;
    int columns[3];
    Datum values[3];
    bool nulls[3];

    void set(AttrNumber column, Datum value, bool null = false) {
        columns[n] = column;
        values[n] = value;
        nulls[n++] = null;
    }
};

// The row with the columns of the state that it enters.
HeapTuple entered(const StepUpdate& step, HeapTuple row, TupleDesc descriptor) {
    if (!step.changes_state()) return row;
    Changes changes;
    const bool reports_error = step.is("enqueued_as_error_for_orchestration");
    if (step.is("in_progress")) {
        changes.set(step.number(StepColumn::last_attempted_at), TimestampTzGetDatum(GetCurrentTimestamp()));
        changes.set(step.number(StepColumn::permanent), BoolGetDatum(false));
        changes.set(step.number(StepColumn::backoff_request), static_cast<Datum>(0), true);
    } else if (reports_error || (step.is("waiting_for_retry") && !step.has(StepColumn::last_failure_at))) {
        changes.set(step.number(StepColumn::last_failure_at), TimestampTzGetDatum(GetCurrentTimestamp()));
    }
    if (changes.n == 0) return row;
    return heap_modify_tuple_by_cols(row, descriptor, changes.n, changes.columns, changes.values, changes.nulls);
}

HeapTuple check_step(const StepUpdate& step, HeapTuple row, TupleDesc descriptor, bool orchestrated) {
    if (is_work_of_sql(step) && !runs_sql()) step.fire("_sql_step_by_sql");
    if (!orchestrated && writes_kept(step)) step.fire("_step_by_sql");
    if (needs_condition(step)) step.fire("_needs_condition");
    if (!orchestrated && is_enqueued(step)) step.fire("_enqueued_by_sql");
    if (is_operators(step)) step.fire("_operators_only");
    return entered(step, row, descriptor);
}

// Whether the steps that a statement has written may count otherwise now: what workers do keeps a step in flight.
// Ereports.
bool leave_flight(const TriggerData& trigger) {
    TupleDesc descriptor = RelationGetDescr(trigger.tg_relation);
    const int state = SPI_fnumber(descriptor, "state");
    if (state <= 0 || TupleDescAttr(descriptor, state - 1)->atttypid != TEXTOID) return true;
    Tuplestorestate* rows = trigger.tg_newtable;
    tuplestore_select_read_pointer(rows, tuplestore_alloc_read_pointer(rows, EXEC_FLAG_REWIND));
    tuplestore_rescan(rows);
    TupleTableSlot* row = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);
    bool leave = false;
    while (!leave && tuplestore_gettupleslot(rows, true, false, row)) {
        bool null;
        const Datum value = slot_getattr(row, state, &null);
        const std::string_view is = null ? std::string_view() : pg::view(DatumGetTextPP(value));
        leave =
            is != "in_progress" && is != "enqueued_for_orchestration" && is != "enqueued_as_error_for_orchestration";
    }
    ExecDropSingleTupleTableSlot(row);
    return leave;
}

}  // namespace

PAWL_FUNCTION(pawl_dag_steps_written) {
    TriggerData& trigger = trigger_of(fcinfo, steps, Moment::after_statement);
    if (dag::is_orchestrated()) return static_cast<Datum>(0);
    return pg::call([&] { return leave_flight(trigger) ? fire_as(fcinfo, "_steps_moved") : static_cast<Datum>(0); });
}

PAWL_FUNCTION(pawl_dag_task_written) {
    TriggerData& trigger = trigger_of(fcinfo, tasks);
    const bool orchestrated = dag::is_orchestrated();
    return pg::call([&] {
        return PointerGetDatum(check_task(TaskUpdate(fcinfo, trigger, tasks), trigger.tg_newtuple, orchestrated));
    });
}

PAWL_FUNCTION(pawl_dag_step_written) {
    TriggerData& trigger = trigger_of(fcinfo, steps);
    const bool orchestrated = dag::is_orchestrated();
    return pg::call([&] {
        return PointerGetDatum(check_step(StepUpdate(fcinfo, trigger, steps), trigger.tg_newtuple,
                                          RelationGetDescr(trigger.tg_relation), orchestrated));
    });
}

}  // namespace pawl
