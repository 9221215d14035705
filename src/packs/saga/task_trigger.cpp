// May throw and may ereport: the trigger of updates of tasks. It decides in C++ which checks a row needs and calls
// their PL/pgSQL functions.
#include "pg/row_trigger.hpp"

namespace pawl {

namespace {

enum class TaskColumn { state, worker, queue, result, failure, revert_result, revert_failure, progress, details };
pg::Table<9> tasks = {"pawl_saga",
                      "tasks",
                      {"state", "worker", "queue", "result", "failure", "revert_result", "revert_failure", "progress",
                       "progress_details"},
                      {}};

using TaskUpdate = pg::Update<TaskColumn, 9>;

bool is_work_of_sql(const TaskUpdate& task) {
    const bool is_work = task.was("RUNNING") || task.was("REVERTING") || task.is("RUNNING") || task.is("REVERTING");
    return is_work && task.has(TaskColumn::queue) && pg::view(DatumGetTextPP(task.value(TaskColumn::queue))) == "sql:";
}

HeapTuple check_task(const TaskUpdate& task, HeapTuple row) {
    if (is_work_of_sql(task) && !pg::answer_of("pawl_saga", "_runs_sql")) task.fire("_sql_task_by_sql");
    if (task.changes_state()) {
        if (task.is("IGNORE") || task.is("PENDING")) task.fire("_task_kept");
        return task.fire("_task_entered");
    }
    if (task.changes_any(TaskColumn::result, TaskColumn::failure, TaskColumn::revert_result, TaskColumn::revert_failure,
                         TaskColumn::progress, TaskColumn::details))
        task.fire("_task_kept");
    // a statement that leads a task back to its state says that a worker was lost
    return task.sets(TaskColumn::state) && task.had(TaskColumn::worker) ? task.fire("_worker_lost") : row;
}

}  // namespace

PAWL_FUNCTION(pawl_saga_task_written) {
    TriggerData& trigger = pg::trigger_of(fcinfo, tasks);
    return pg::call(
        [&] { return PointerGetDatum(check_task(TaskUpdate(fcinfo, trigger, tasks), trigger.tg_newtuple)); });
}

}  // namespace pawl
