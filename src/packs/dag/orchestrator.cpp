// May throw and may ereport. Whether an orchestrator, or a start of tasks, runs in this session. It does itself what
// follows from its statements, and writes only what fits, so the triggers that do and check this for all others skip
// them. This is kept in a variable and not in a setting, which any session could set.
#include "pg/arguments.hpp"

namespace pawl {

namespace {

// The trigger depth of the statements of the running orchestrator or start; triggers that these fire lie deeper.
int orchestrator_depth = -1;

int trigger_depth() {
    return pg::call([] { return DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, static_cast<Datum>(0))); });
}

class AtWork {
public:
    AtWork() : before_(orchestrator_depth) { orchestrator_depth = trigger_depth(); }
    ~AtWork() { orchestrator_depth = before_; }
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;

private:
    int before_;
};

// Only the owner may call the function, so it is called by OID, without a check of privileges.
Datum turn(Datum batch) {
    Oid argument = INT4OID;
    const Oid function =
        LookupFuncName(list_make2(makeString(pstrdup("pawl_dag")), makeString(pstrdup("_turn"))), 1, &argument, false);
    return OidFunctionCall1(function, batch);
}

// Calls pawl_dag._insert_tasks with the arguments of the caller; which function that is, is decided as in turn().
Datum insert_tasks(FunctionCallInfo fcinfo) {
    const Oid function =
        LookupFuncName(list_make2(makeString(pstrdup("pawl_dag")), makeString(pstrdup("_insert_tasks"))), -1, nullptr,
                       false);
    FmgrInfo called;
    fmgr_info(function, &called);
    LOCAL_FCINFO(call, FUNC_MAX_ARGS);
    InitFunctionCallInfoData(*call, &called, PG_NARGS(), fcinfo->fncollation, nullptr, nullptr);
    for (int n = 0; n < PG_NARGS(); ++n) call->args[n] = fcinfo->args[n];
    const Datum tasks = FunctionCallInvoke(call);
    fcinfo->isnull = call->isnull;
    return tasks;
}

}  // namespace

PAWL_FUNCTION(pawl_dag_orchestrating) {
    return BoolGetDatum(orchestrator_depth == trigger_depth());
}

PAWL_FUNCTION(pawl_dag_take_turn) {
    pg::require(fcinfo, 0, "batch");
    const AtWork at_work;
    return pg::call([&] { return turn(PG_GETARG_DATUM(0)); });
}

PAWL_FUNCTION(pawl_dag_start_tasks) {
    const AtWork at_work;
    return pg::call([&] { return insert_tasks(fcinfo); });
}

}  // namespace pawl
