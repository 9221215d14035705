// May throw and may ereport. Whether an orchestrator, or a start of tasks, runs in this session. It does itself what
// follows from its statements, and writes only what fits, so the triggers that do and check this for all others skip
// them. This is kept in variables and not in a setting, which any session could set.
#include "events/wake.hpp"
#include "packs/dag/exchange.hpp"
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

bool dag::is_at_work() {
    return orchestrator_depth == pg::trigger_depth();
}

void dag::stop_orchestrating() noexcept {
    orchestrator_depth = -1;
}

void dag::leave_to_others() {
    note_wake(get_relname_relid("steps", get_namespace_oid("pawl_dag", false)));
    note_wake(events_channel);
}

PAWL_FUNCTION(pawl_dag_orchestrating) {
    return BoolGetDatum(dag::is_at_work());
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

namespace {

// Null, empty or unfit arguments are left to pawl_dag.report and pawl_dag.claim, which raise errors, and so are the
// steps of SQL functions, which few roles claim.
bool are_plain(FunctionCallInfo fcinfo) {
    for (const int n : {0, 1, 2, 3, 5})
        if (PG_ARGISNULL(n)) return false;
    const int batch = PG_GETARG_INT32(3);
    const int orchestrate = PG_GETARG_INT32(5);
    if (batch < 1 || batch > most_rows || orchestrate < 1 || orchestrate > most_rows) return false;
    return pg::call([&] {
        return JB_ROOT_IS_ARRAY(PG_GETARG_JSONB_P(0)) && VARSIZE_ANY_EXHDR(PG_GETARG_TEXT_PP(1)) > 0 &&
               pg::view(PG_GETARG_TEXT_PP(2)) != "sql:";
    });
}

bool report_and_claim_at_once(FunctionCallInfo fcinfo) {
    if (!are_plain(fcinfo)) return false;
    dag::Asked asked = {};
    asked.lease = lease_argument(fcinfo, 4);
    pg::call([&] {
        asked.results = PG_GETARG_JSONB_P(0);
        asked.worker = PG_GETARG_TEXT_PP(1);
        asked.queue = PG_GETARG_TEXT_PP(2);
    });
    asked.batch = PG_GETARG_INT32(3);
    asked.orchestrate = PG_GETARG_INT32(5);
    const pg::NotedDepth at_work(orchestrator_depth);
    dag::Tasks tasks = {};
    const NotedTasks noted(tasks);
    Intent intent = {};
    const IntentScope scope(intent);
    return dag::exchange(fcinfo, asked, intent, tasks);
}

}  // namespace

// pawl_dag.report_and_claim(results, processor, namespace, batch, lease, orchestrate)
PAWL_FUNCTION(pawl_dag_report_and_claim) {
    if (!report_and_claim_at_once(fcinfo)) pg::call([&] { pg::call_inner(fcinfo, "pawl_dag", "_report_then_claim"); });
    return static_cast<Datum>(0);
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
    return pg::call([&] {
        dag::leave_to_others();
        return pg::call_inner(fcinfo, "pawl_dag", "_insert_tasks");
    });
}

}  // namespace pawl
