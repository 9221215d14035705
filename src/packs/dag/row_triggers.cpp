// May throw and may ereport: the triggers of updates of tasks and steps. Each decides in C++ which checks a row needs
// and calls their PL/pgSQL functions.
#include "guard/listed_events.hpp"
#include "packs/dag/orchestrating.hpp"
#include "pg/index_look.hpp"
#include "pg/row_trigger.hpp"

namespace pawl {

namespace {

enum class TaskColumn { state, task, evaluate, entered_at, watch_at, deadline_at, stale_after, failed, counters };
pg::Table<15> tasks = {"pawl_dag",
                       "tasks",
                       {"state", "task_uuid", "evaluate", "entered_at", "watch_at", "deadline_at", "stale_after",
                        "steps_failed", "steps_total", "steps_blocked", "steps_ready", "steps_in_flight",
                        "steps_waiting", "steps_satisfied", "steps_cancelled"},
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
pg::Table<15> steps = {"pawl_dag",
                       "steps",
                       {"state", "permanent", "retryable", "attempts", "max_attempts", "last_attempted_at",
                        "last_failure_at", "backoff_request", "next_retry_at", "result", "error", "namespace",
                        "unsatisfied_parents", "total_parents", "level"},
                       {}};

using TaskUpdate = pg::Update<TaskColumn, 15>;
using StepUpdate = pg::Update<StepColumn, 15>;

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

// Whether the task can have a dead letter that is not closed. Most databases have none, so the index answers.
bool may_be_dead_letter(const TaskUpdate& task) {
    const Oid table = get_relname_relid("dlq", get_namespace_oid("pawl_dag", false));
    if (!OidIsValid(table) || pg::is_empty(table)) return false;
    Relation letters = table_open(table, AccessShareLock);
    const pg::Seen seen = pg::look_into(letters, "dlq_pending", task.value(TaskColumn::task));
    table_close(letters, AccessShareLock);
    return seen != pg::Seen::none;
}

// Whether something follows from the state change for the steps of the task, or for dead letters.
bool means_more(const TaskUpdate& task) {
    return task.changes_state() &&
           (task.is("cancelled") || task.is("resolved_manually") || task.is("error") ||
            task.is("blocked_by_failures") || task.was("error") || task.was("blocked_by_failures") ||
            (task.is("complete") && may_be_dead_letter(task)));
}

bool is_to_be_evaluated(const TaskUpdate& task) {
    return !task.old_flag(TaskColumn::evaluate) && DatumGetBool(task.value(TaskColumn::evaluate));
}

HeapTuple check_task(const TaskUpdate& task, HeapTuple row, bool orchestrated) {
    if (!orchestrated && writes_kept(task)) task.fire("_task_by_sql");
    if (!orchestrated && is_to_be_evaluated(task)) dag::leave_to_others();
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
    return pg::answer_of("pawl_dag", "_runs_sql");
}

// A worker's report completes the step in one write, if the same transaction reads it: by two transitions.
bool completes_by_report(const StepUpdate& step) {
    return step.was("in_progress") && step.is("complete");
}

bool is_operators(const StepUpdate& step) {
    return step.changes_state() && (step.is("cancelled") || step.is("resolved_manually") || step.was("error") ||
                                    (step.is("complete") && !step.was("enqueued_for_orchestration")));
}

// An operator lets a step that has failed for good begin again.
bool is_reopened(const StepUpdate& step) {
    return step.was("error") && step.is("pending");
}

// The row with the columns of the state that it enters.
HeapTuple entered(const StepUpdate& step, HeapTuple row, TupleDesc descriptor) {
    if (!step.changes_state()) return row;
    pg::Changes<3> changes;
    const bool reports_error = step.is("enqueued_as_error_for_orchestration");
    if (step.is("in_progress")) {
        changes.set(step.number(StepColumn::last_attempted_at), TimestampTzGetDatum(GetCurrentTimestamp()));
        changes.set(step.number(StepColumn::permanent), BoolGetDatum(false));
        changes.set(step.number(StepColumn::backoff_request), static_cast<Datum>(0), true);
    } else if (reports_error || (step.is("waiting_for_retry") && !step.has(StepColumn::last_failure_at))) {
        changes.set(step.number(StepColumn::last_failure_at), TimestampTzGetDatum(GetCurrentTimestamp()));
    }
    return changes.made_in(row, descriptor);
}

HeapTuple check_step(const StepUpdate& step, HeapTuple row, TupleDesc descriptor, bool orchestrated) {
    if (is_work_of_sql(step) && !runs_sql()) step.fire("_sql_step_by_sql");
    if (!orchestrated && writes_kept(step)) step.fire("_step_by_sql");
    if (!orchestrated && is_reported(step)) dag::leave_to_others();
    if (needs_condition(step)) step.fire("_needs_condition");
    if (!orchestrated && is_enqueued(step)) step.fire("_enqueued_by_sql");
    if (is_operators(step) && !(orchestrated && completes_by_report(step))) step.fire("_operators_only");
    if (is_reopened(step)) step.fire("_step_reopened");
    return entered(step, row, descriptor);
}

// What a statement has done to steps.
struct Written {
    bool leaves_flight;  // some may count otherwise now: what workers do keeps a step in flight
    bool has_timeout;    // some are in progress and have a timeout
};

// Ereports.
Written look_at_written(const TriggerData& trigger) {
    TupleDesc descriptor = RelationGetDescr(trigger.tg_relation);
    const int state = SPI_fnumber(descriptor, "state");
    const int timeout = SPI_fnumber(descriptor, "timeout");
    if (state <= 0 || timeout <= 0 || TupleDescAttr(descriptor, state - 1)->atttypid != TEXTOID) return {true, true};
    Tuplestorestate* rows = trigger.tg_newtable;
    tuplestore_select_read_pointer(rows, tuplestore_alloc_read_pointer(rows, EXEC_FLAG_REWIND));
    tuplestore_rescan(rows);
    TupleTableSlot* row = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);
    Written written = {};
    while (!(written.leaves_flight && written.has_timeout) && tuplestore_gettupleslot(rows, true, false, row)) {
        bool null;
        const Datum value = slot_getattr(row, state, &null);
        const std::string_view is = null ? std::string_view() : pg::view(DatumGetTextPP(value));
        if (is == "in_progress")
            written.has_timeout |= !slot_attisnull(row, timeout);
        else
            written.leaves_flight |= is != "enqueued_for_orchestration" && is != "enqueued_as_error_for_orchestration";
    }
    tuplestore_select_read_pointer(rows, 0);
    ExecDropSingleTupleTableSlot(row);
    return written;
}

}  // namespace

PAWL_FUNCTION(pawl_dag_steps_written) {
    TriggerData& trigger = pg::trigger_of(fcinfo, steps, pg::Moment::after_statement);
    if (dag::is_orchestrated()) return static_cast<Datum>(0);
    return pg::call([&] {
        const Written written = look_at_written(trigger);
        if (written.has_timeout) pg::fire_as(fcinfo, "pawl_dag", "_steps_claimed");
        return written.leaves_flight ? pg::fire_as(fcinfo, "pawl_dag", "_steps_moved") : static_cast<Datum>(0);
    });
}

PAWL_FUNCTION(pawl_dag_task_written) {
    TriggerData& trigger = pg::trigger_of(fcinfo, tasks);
    const bool orchestrated = dag::is_orchestrated();
    if (!orchestrated) require_one_transition(trigger.tg_relation);
    return pg::call([&] {
        return PointerGetDatum(check_task(TaskUpdate(fcinfo, trigger, tasks), trigger.tg_newtuple, orchestrated));
    });
}

PAWL_FUNCTION(pawl_dag_task_changed) {
    TriggerData& trigger = pg::trigger_of(fcinfo, tasks, pg::Moment::after_row);
    return pg::call([&] {
        const TaskUpdate task(fcinfo, trigger, tasks);
        return means_more(task) ? PointerGetDatum(task.fire("_task_moved")) : static_cast<Datum>(0);
    });
}

PAWL_FUNCTION(pawl_dag_step_written) {
    TriggerData& trigger = pg::trigger_of(fcinfo, steps);
    const bool orchestrated = dag::is_orchestrated();
    if (!orchestrated) require_one_transition(trigger.tg_relation);
    return pg::call([&] {
        return PointerGetDatum(check_step(StepUpdate(fcinfo, trigger, steps), trigger.tg_newtuple,
                                          RelationGetDescr(trigger.tg_relation), orchestrated));
    });
}

}  // namespace pawl
