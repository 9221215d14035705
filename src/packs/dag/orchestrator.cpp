// May throw and may ereport. Whether an orchestrator, or a start of tasks, runs in this session. It does itself what
// follows from its statements, and writes only what fits, so the triggers that do and check this for all others skip
// them. This is kept in a variable and not in a setting, which any session could set.
#include "pg/noted_depth.hpp"

namespace pawl {

namespace {

int orchestrator_depth = -1;
int apart_depth = -1;

// Only the owner may call the function, so it is called by OID, without a check of privileges.
Datum turn(Datum batch) {
    Oid argument = INT4OID;
    const Oid function =
        LookupFuncName(list_make2(makeString(pstrdup("pawl_dag")), makeString(pstrdup("_turn"))), 1, &argument, false);
    return OidFunctionCall1(function, batch);
}

}  // namespace

PAWL_FUNCTION(pawl_dag_orchestrating) {
    return BoolGetDatum(orchestrator_depth == pg::trigger_depth());
}

PAWL_FUNCTION(pawl_dag_take_turn) {
    pg::require(fcinfo, 0, "batch");
    const pg::NotedDepth at_work(orchestrator_depth);
    return pg::call([&] { return turn(PG_GETARG_DATUM(0)); });
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
