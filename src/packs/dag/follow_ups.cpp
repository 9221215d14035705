// May throw and may ereport: who sees to what follows from the moves of workflow steps. A trigger does, but not for the statements of an
// orchestrator, who sees to it himself. Of a saga's moves the outermost follow-up sees to the end of the flow. That one is at work is known
// here and nowhere else: a setting could be set by any session.
#include <utility>

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

// The subtransaction in which the outermost follow-up of a saga's moves began; invalid: none is under way.
SubTransactionId following = InvalidSubTransactionId;

// Nobody but the owner may call it, so it is called by its place in the catalog.
Datum turn(Datum batch) {
    Oid argument = INT4OID;
    const Oid function = LookupFuncName(list_make2(makeString(pstrdup("pawl_dag")), makeString(pstrdup("_turn"))), 1, &argument, false);
    return OidFunctionCall1(function, batch);
}

}  // namespace

PAWL_FUNCTION(pawl_dag_orchestrating) { return BoolGetDatum(orchestrator_depth == trigger_depth()); }

void end_following() noexcept { following = InvalidSubTransactionId; }

void end_following_of(SubTransactionId subtransaction) noexcept {
    if (following == subtransaction) end_following();
}

void reassign_following(SubTransactionId from, SubTransactionId to) noexcept {
    if (following == from) following = to;
}

SubTransactionId suspend_following() noexcept { return std::exchange(following, InvalidSubTransactionId); }

void resume_following(SubTransactionId suspended) noexcept { following = suspended; }

PAWL_FUNCTION(pawl_dag_take_turn) {
    pg::require(fcinfo, 0, "batch");
    const AtWork at_work;
    return pg::call([&] { return turn(PG_GETARG_DATUM(0)); });
}

// pawl_saga._follow(): true where no other follow-up is under way. Only the owner may call it: its follow-ups are SECURITY DEFINER.
PAWL_FUNCTION(pawl_saga_follow) {
    const bool outermost = following == InvalidSubTransactionId;
    if (outermost) following = GetCurrentSubTransactionId();
    return BoolGetDatum(outermost);
}

// pawl_saga._followed()
PAWL_FUNCTION(pawl_saga_followed) {
    end_following();
    return static_cast<Datum>(0);
}

}  // namespace pawl
