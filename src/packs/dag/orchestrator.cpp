// May throw and may ereport. Whether an orchestrator, or a start of tasks, runs in this session. It does itself what
// follows from its statements, and writes only what fits, so the triggers that do and check this for all others skip
// them. This is kept in variables and not in a setting, which any session could set.
#include "packs/dag/orchestrating.hpp"
#include "packs/dag/turn.hpp"
#include "pg/noted_depth.hpp"
#include "work/duty.hpp"

namespace pawl {

namespace {

int orchestrator_depth = -1;
int apart_depth = -1;
const dag::Tasks* in_turn = nullptr;  // of the orchestrator at that depth; null: none has picked tasks

// Notes the tasks of a turn while it lives.
class NotedTasks {
public:
    explicit NotedTasks(const dag::Tasks& tasks) noexcept : before_(in_turn) { in_turn = &tasks; }
    ~NotedTasks() noexcept { in_turn = before_; }
    NotedTasks(const NotedTasks&) = delete;
    NotedTasks& operator=(const NotedTasks&) = delete;

private:
    const dag::Tasks* before_;
};

Datum as_record(FunctionCallInfo fcinfo, const dag::Done& done) {
    TupleDesc descriptor;
    if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "the result of a turn must be a row");
    Datum values[] = {Int32GetDatum(static_cast<int32>(done.tasks)), Int64GetDatum(done.reported),
                      Int64GetDatum(done.enqueued), Int64GetDatum(done.finished)};
    bool nulls[4] = {};
    return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

}  // namespace

bool dag::is_orchestrated() {
    return orchestrator_depth >= 0 && orchestrator_depth + 1 == pg::trigger_depth();
}

PAWL_FUNCTION(pawl_dag_orchestrating) {
    return BoolGetDatum(orchestrator_depth == pg::trigger_depth());
}

// For a guard, which the trigger calls that the statement of the turn fires.
PAWL_FUNCTION(pawl_dag_enqueued_in_turn) {
    if (in_turn == nullptr || !dag::is_orchestrated()) return BoolGetDatum(false);
    return BoolGetDatum(dag::has_enqueued(*in_turn, *PG_GETARG_UUID_P(0)));
}

PAWL_FUNCTION(pawl_dag_take_turn) {
    const int batch = batch_argument(fcinfo, 0);
    const pg::NotedDepth at_work(orchestrator_depth);
    dag::Tasks tasks = {};
    const NotedTasks noted(tasks);
    Intent intent = {};
    const IntentScope scope(intent);
    const dag::Done done = dag::take_turn(batch, intent, tasks);
    return pg::call([&] { return as_record(fcinfo, done); });
}

// Only here may a task be said to be in trouble.
PAWL_FUNCTION(pawl_dag_take_turns_apart) {
    const pg::NotedDepth at_work(apart_depth);
    return pg::call([&] { return pg::call_inner(fcinfo, "pawl_dag", "_turns_apart"); });
}

PAWL_FUNCTION(pawl_dag_turning_apart) {
    return BoolGetDatum(apart_depth == pg::trigger_depth());
}

PAWL_FUNCTION(pawl_dag_start_tasks) {
    const pg::NotedDepth at_work(orchestrator_depth);
    return pg::call([&] { return pg::call_inner(fcinfo, "pawl_dag", "_insert_tasks"); });
}

}  // namespace pawl
