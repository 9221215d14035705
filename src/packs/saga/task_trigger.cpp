// May throw and may ereport: the trigger of updates of tasks. It sets what a task remembers of the
// state that it enters, decides which checks a row needs and calls their PL/pgSQL functions.
#include "guard/listed_events.hpp"
#include "packs/saga/uncounted.hpp"
#include "pg/row_trigger.hpp"

namespace pawl {

namespace {

enum class TaskColumn {
    state,
    worker,
    queue,
    result,
    failure,
    revert_result,
    revert_failure,
    progress,
    details,
    due_at,
    lease_until,
    started_at,
    timeout_at,
    wait_until,
    timeout,
    revert_timeout,
    losses,
    max_losses,
    flow,
    intention,
    blockers,
    revert_again
};
constexpr int columns_read = 22;
pg::Table<columns_read> tasks = {
    "pawl_saga",
    "tasks",
    {"state",       "worker",           "queue",  "result",      "failure",    "revert_result", "revert_failure",
     "progress",    "progress_details", "due_at", "lease_until", "started_at", "timeout_at",    "wait_until",
     "timeout",     "revert_timeout",   "losses", "max_losses",  "flow_uuid",  "intention",     "blockers",
     "revert_again"},
    {}};

using TaskUpdate = pg::Update<TaskColumn, columns_read>;

bool is_work_of_sql(const TaskUpdate& task) {
    const bool is_work = task.was("RUNNING") || task.was("REVERTING") || task.is("RUNNING") || task.is("REVERTING");
    return is_work && task.has(TaskColumn::queue) && pg::view(DatumGetTextPP(task.value(TaskColumn::queue))) == "sql:";
}

// The failure of a task that no worker reported.
Datum unknown_outcome(const TaskUpdate& task) {
    const int32 losses = DatumGetInt32(task.old_value(TaskColumn::losses)) + 1;
    const bool lost = losses >= DatumGetInt32(task.old_value(TaskColumn::max_losses)) &&
                      task.had(TaskColumn::lease_until) &&
                      DatumGetTimestampTz(task.old_value(TaskColumn::lease_until)) <= GetCurrentTimestamp();
    return DirectFunctionCall1(jsonb_in,
                               CStringGetDatum(lost ? psprintf("{\"message\": \"%d workers were lost with it\", "
                                                               "\"type\": \"lost\"}",
                                                               losses)
                                                    : "{\"message\": \"unknown outcome\"}"));
}

// What a task remembers of the state that it enters.
class Entering {
public:
    explicit Entering(const TaskUpdate& task) : task_(task) {}

    HeapTuple row(HeapTuple row, TupleDesc descriptor) {
        clear(TaskColumn::wait_until);
        if (DatumGetBool(task_.value(TaskColumn::revert_again))) set(TaskColumn::revert_again, BoolGetDatum(false));
        if (task_.is("RUNNING")) {
            begin(TaskColumn::timeout);
            clear(TaskColumn::progress, TaskColumn::details);
        } else if (task_.is("REVERTING")) {
            begin(TaskColumn::revert_timeout);
        } else {
            clear(TaskColumn::timeout_at);
            end();
        }
        return changes_.made_in(row, descriptor);
    }

    // Its state stays. A wait ends with the attempt that it belongs to, and another worker has the whole time.
    HeapTuple staying(HeapTuple row, TupleDesc descriptor) {
        if (task_.changes(TaskColumn::intention) || DatumGetInt32(task_.value(TaskColumn::blockers)) > 0)
            clear(TaskColumn::wait_until);
        if (!task_.had(TaskColumn::worker) && task_.has(TaskColumn::worker)) {
            if (task_.is("RUNNING")) limit(TaskColumn::timeout, GetCurrentTimestamp());
            if (task_.is("REVERTING")) limit(TaskColumn::revert_timeout, GetCurrentTimestamp());
        }
        return changes_.made_in(row, descriptor);
    }

private:
    void begin(TaskColumn timeout) {
        const TimestampTz now = GetCurrentTimestamp();
        set(TaskColumn::started_at, TimestampTzGetDatum(now));
        set(TaskColumn::losses, Int32GetDatum(0));
        limit(timeout, now);
    }

    void limit(TaskColumn timeout, TimestampTz now) {
        if (task_.has(timeout))
            set(TaskColumn::timeout_at,
                DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(now), task_.value(timeout)));
        else
            clear(TaskColumn::timeout_at);
    }

    void end() {
        if (task_.is("SUCCESS")) {
            clear(TaskColumn::failure);
            rest();
        } else if (task_.is("FAILURE")) {
            clear(TaskColumn::result);
            fail(TaskColumn::failure);
        } else if (task_.is("REVERT_FAILURE")) {
            fail(TaskColumn::revert_failure);
        } else if (task_.is("REVERTED")) {
            clear(TaskColumn::revert_failure);
        } else if (task_.is("PENDING")) {
            clear(TaskColumn::result, TaskColumn::failure, TaskColumn::revert_result, TaskColumn::revert_failure,
                  TaskColumn::progress, TaskColumn::details, TaskColumn::started_at);
            rest();
        }
    }

    void fail(TaskColumn failure) {
        if (!task_.has(failure)) set(failure, unknown_outcome(task_));
        rest();
    }

    // It cannot be claimed.
    void rest() { set(TaskColumn::due_at, TimestampTzGetDatum(DT_NOEND)); }

    void set(TaskColumn column, Datum value) { changes_.set(task_.number(column), value); }

    template <typename... Columns>
    void clear(Columns... columns) {
        ((task_.has(columns) ? changes_.set(task_.number(columns), static_cast<Datum>(0), true) : void()), ...);
    }

    const TaskUpdate& task_;
    pg::Changes<columns_read> changes_;
};

HeapTuple check_task(const TaskUpdate& task, HeapTuple row, TupleDesc descriptor) {
    if (is_work_of_sql(task) && !pg::answer_of("pawl_saga", "_runs_sql")) task.fire("_sql_task_by_sql");
    if (task.changes_state()) {
        if (task.is("IGNORE") || task.is("PENDING")) task.fire("_task_kept");
        if (!task.is("PENDING") && !task.is("RUNNING") && !task.is("REVERTING"))
            saga::note_end(*DatumGetUUIDP(task.value(TaskColumn::flow)));
        return Entering(task).row(row, descriptor);
    }
    if (task.changes_any(TaskColumn::result, TaskColumn::failure, TaskColumn::revert_result, TaskColumn::revert_failure,
                         TaskColumn::progress, TaskColumn::details))
        task.fire("_task_kept");
    // a statement that leads a task back to its state says that a worker was lost
    if (task.sets(TaskColumn::state) && task.had(TaskColumn::worker)) return task.fire("_worker_lost");
    return Entering(task).staying(row, descriptor);
}

}  // namespace

PAWL_FUNCTION(pawl_saga_task_written) {
    TriggerData& trigger = pg::trigger_of(fcinfo, tasks);
    require_one_transition(trigger.tg_relation);
    return pg::call([&] {
        return PointerGetDatum(
            check_task(TaskUpdate(fcinfo, trigger, tasks), trigger.tg_newtuple, RelationGetDescr(trigger.tg_relation)));
    });
}

}  // namespace pawl
