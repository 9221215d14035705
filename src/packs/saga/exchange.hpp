// May throw and may ereport. The two halves of a worker's call: what it reports, and what it claims.
#pragma once

#include "guard/intent.hpp"
#include "packs/saga/flows.hpp"
#include "packs/saga/report_elements.hpp"
#include "packs/saga/starting.hpp"
#include "pg/index_look.hpp"
#include "work/claim.hpp"

namespace pawl::saga {

// pawl_saga.tasks.
Target open_tasks();

// The elements of argument 0. Throws 22023 if it is not an array.
Elements elements_argument(FunctionCallInfo fcinfo);

// Locks the flows of the sound elements, and returns them. Flows come first, then tasks: all functions that decide lock
// in this order. Ereports; runs inside SPI, as the next two do.
Flows lock_flows(Binding& tasks, const Elements& elements);

// Records the sound elements; their flows must be locked. From then on it is one time, so that no lease expires between
// check and state change. `intent` must be the current one.
void record_elements(Binding& tasks, text* worker, Intent& intent, const Elements& elements);

// Puts the answer to an element into the first five columns of the result.
void answer(ReturnSetInfo* result, const Element& element);

// pawl_saga.report: records the elements and answers them. The setting pawl.processor must name the worker.
void report(FunctionCallInfo fcinfo, Elements& elements, text* worker);

// What a worker asks for.
struct Asked {
    text* processor;
    text* queue;
    int batch;
    const Interval* lease;  // null: that of the binding
};

// From argument n on: queue, batch and lease. Throws what pawl_saga.claim raises.
Asked asked_of(FunctionCallInfo fcinfo, text* processor, int n);

// For the rest of the transaction.
void set_processor(text* processor);

// Whether lost workers left something in the queue, tasks are to be reverted, or it is paused. Ereports; runs inside
// SPI.
struct Queue {
    bool has_lost;
    bool has_reverts;
    bool paused;
};
Queue look_at(const Asked& asked, Binding& tasks);

// Looks for the task of the queue that a claim would give first, which is then in `first`. Unknown: it was not found at
// once. Ereports.
pg::Seen look_for_waiting(const Asked& asked, const Binding& tasks, Rank& first);

// Throws.
ClaimRequest request_of(const Target& tasks, const char* event, const Asked& asked, int most);

// Puts what a worker is told of tasks, rows of pawl_saga.tasks, into the last columns of the result, and returns of how
// many. Ereports; runs inside SPI. At once: an error is raised, so the caller's subtransaction ends. Tried: it has a
// subtransaction of its own if there is anything to form, and after an error the tasks are seen to one by one: one
// whose input cannot be formed fails.
enum class Forming { at_once, tried };
struct Claimed {
    TupleDesc descriptor;
    HeapTuple* rows;
    int n;
};
int answer(const Claimed& claimed, Binding& tasks, ReturnSetInfo* result, Forming forming);

// pawl_saga.claim: claims tasks and answers them.
void claim(FunctionCallInfo fcinfo, const Asked& asked);

}  // namespace pawl::saga
