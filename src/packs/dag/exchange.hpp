// May throw and may ereport. A worker's report, a turn over the tasks of its steps, and its next claim, together: what
// follows from a result is written with the result, and steps that are enqueued for the worker are started at once.
#pragma once

#include "packs/dag/turn.hpp"

namespace pawl::dag {

struct Asked {
    Jsonb* results;  // an array
    text* worker;
    text* queue;
    int batch;
    const Interval* lease;  // null: that of the binding
    int orchestrate;
};

// Does it with the rights of the caller and puts the rows that pawl_dag.report_and_claim returns into its result.
// `intent` must be the current one; `tasks` gets the tasks of the turn. Returns false if something was rejected: then
// all of it is undone, and the parts have to be done one by one. Raises transient errors.
bool exchange(FunctionCallInfo fcinfo, const Asked& asked, Intent& intent, Tasks& tasks);

}  // namespace pawl::dag
