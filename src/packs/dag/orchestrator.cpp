// May throw and may ereport. Whether an orchestrator is at work in this session: it does itself what follows from the
// state changes of its statements, so the trigger that does it for all others leaves them alone. This is known here and
// nowhere else: a setting could be set by any session.
#include "pg/arguments.hpp"

namespace pawl {

namespace {

// The trigger depth of the statements of the orchestrator that is at work; triggers of others lie deeper.
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

// Only the owner may call it, so it is called by its place in the catalog.
Datum turn(Datum batch) {
    Oid argument = INT4OID;
    const Oid function =
        LookupFuncName(list_make2(makeString(pstrdup("pawl_dag")), makeString(pstrdup("_turn"))), 1, &argument, false);
    return OidFunctionCall1(function, batch);
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

}  // namespace pawl
