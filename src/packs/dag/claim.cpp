// May throw and may ereport: pawl_dag._claim, which claims steps and returns them with what they work on.
#include "fire/plans.hpp"
#include "fire/target.hpp"
#include "packs/dag/inputs.hpp"
#include "work/trial.hpp"

namespace pawl {

namespace dag {

namespace {

#define OWN                                                                                                        \
    "SELECT c.task_uuid, c.step_uuid, c.name, c.handler, c.handler_options, c.token, c.attempts, c.total_parents " \
    "FROM "
constexpr const char* claim_next_steps = OWN "pawl.claim(NULL::pawl_dag.steps, 'Start', $1, $2, $3, $4) c";
constexpr const char* claim_named_steps = OWN "pawl.claim_keys(NULL::pawl_dag.steps, $3, 'Start', $1, $2, $4) c";
#undef OWN

constexpr const char* fail_step = "SELECT pawl_dag._input_raised($1, $2, $3, $4, $5, $6)";

// Everything below ereports and owns nothing.

struct Claim {
    Binding& binding;
    ReturnSetInfo* result;
    Datum worker;
    Parameters parameters;
    bool named;  // by their keys
    int nreturned;
    int nfailed;
};

ClaimedSteps take(Claim& claim) {
    const char* query = claim.named ? claim_named_steps : claim_next_steps;
    const auto n = static_cast<int>(run_planned(claim.binding, query, claim.parameters, Order::sorted));
    const SPITupleTable* rows = SPI_tuptable;
    ClaimedSteps steps = {static_cast<ClaimedStep*>(palloc0(sizeof(ClaimedStep) * Max(n, 1))), n};
    for (int i = 0; i < n; ++i) read_step(&steps.items[i], rows->vals[i], rows->tupdesc);
    return steps;
}

void give(Claim& claim, ClaimedStep& step, Measured& measured) {
    form_input(step, measured);
    tuplestore_putvalues(claim.result->setResult, claim.result->setDesc, step.values, step.nulls);
}

// The step fails with the error, or waits until its lease expires.
void fail(const Claim& claim, const ClaimedStep& step, const ErrorData* error) {
    Parameters parameters = {};
    parameters.add(UUIDOID, step.values[ClaimedStep::task]);
    parameters.add(UUIDOID, step.values[ClaimedStep::step]);
    parameters.add(INT8OID, step.values[ClaimedStep::token]);
    parameters.add(TEXTOID, claim.worker);
    parameters.add(TEXTOID, CStringGetTextDatum(unpack_sql_state(error->sqlerrcode)));
    const char* detail = error->detail == nullptr ? "" : error->detail;
    parameters.add(TEXTOID,
                   CStringGetTextDatum(psprintf("%s%s%s", error->message, *detail != '\0' ? ": " : "", detail)));
    const ErrorData* raised = try_alone([&] { run_planned(claim.binding, fail_step, parameters, Order::sorted); });
    if (raised != nullptr)
        ereport(WARNING,
                (errmsg("a step whose input cannot be formed waits until its lease expires: %s", raised->message)));
}

// What raises an error here raises it for this step at each claim, so it must not stop the others.
void give_alone(Claim& claim, ClaimedStep& step, Measured& measured) {
    MemoryContext own = AllocSetContextCreate(CurrentMemoryContext, "input of a step", ALLOCSET_DEFAULT_SIZES);
    const ErrorData* error = try_alone([&] {
        MemoryContextSwitchTo(own);
        give(claim, step, measured);
    });
    MemoryContextDelete(own);
    if (error == nullptr) {
        ++claim.nreturned;
        return;
    }
    ++claim.nfailed;
    fail(claim, step, error);
}

void return_steps(Claim& claim) {
    const ClaimedSteps steps = take(claim);
    if (steps.n == 0) return;
    find_inputs(claim.binding, steps);
    Measured measured = {};
    for (int i = 0; i < steps.n; ++i) {
        ClaimedStep& step = steps.items[i];
        if (!step.found) continue;
        if (!is_small(step)) {
            give_alone(claim, step, measured);
            continue;
        }
        give(claim, step, measured);
        ++claim.nreturned;
    }
}

}  // namespace

}  // namespace dag

// pawl_dag._claim(processor, namespace, batch, lease, keys)
PAWL_FUNCTION(pawl_dag_claim) {
    const Oid relation = pg::call([] { return get_relname_relid("steps", get_namespace_oid("pawl_dag", false)); });
    const Target steps = open_target(relation, "state");
    pg::call([&] {
        dag::Claim claim = {*steps.binding, pg::materialize(fcinfo), PG_GETARG_DATUM(0), {}, !PG_ARGISNULL(4), 0, 0};
        auto add = [&](Oid type, int n) { claim.parameters.add(type, PG_GETARG_DATUM(n), PG_ARGISNULL(n)); };
        add(TEXTOID, 0);
        add(INTERVALOID, 3);
        add(claim.named ? TEXTARRAYOID : INT4OID, claim.named ? 4 : 2);
        add(TEXTOID, 1);
        SPI_connect();
        do {
            claim.nfailed = 0;
            dag::return_steps(claim);
        } while (claim.nreturned == 0 && claim.nfailed > 0 && !claim.named);
        SPI_finish();
        close_target(steps);
    });
    return static_cast<Datum>(0);
}

}  // namespace pawl
