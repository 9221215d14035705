// May ereport; owns nothing. Steps that were claimed, with what they work on.
#pragma once

#include "fire/target.hpp"

namespace pawl::dag {

// A claimed step, with the columns that pawl_dag.claim returns.
struct ClaimedStep {
    enum Column {
        task,
        step,
        name,
        handler,
        options,
        token,
        attempts,
        context,
        parents,
        correlation,
        traceparent,
        tracestate,
        columns
    };
    static constexpr int of_step = context;  // the first that is not the step's own
    Datum values[columns];
    bool nulls[columns];
    bool has_parents;
    bool found;          // its task was
    bool knows_parents;  // they were read already
    double rank;         // its place in the order of claims, if it was read
};

struct ClaimedSteps {
    ClaimedStep* items;
    int n;
};

// A finished step that a claimed one depends on. Those of a map have a place.
struct Parent {
    int64 of;
    std::string_view name;
    bool mapped;
    int place;
    std::string_view state;
    Jsonb* result;  // null: none
};

// What a worker is told of parents that are sorted by name.
Datum parents_object(const Parent* sorted, int n);

// Reads the columns of a row of pawl_dag.steps that are the step's own.
void read_step(ClaimedStep* read, HeapTuple row, TupleDesc descriptor);

// Adds what belongs to their tasks, and the results of their parents, to steps of which the columns of their own are
// read; not to those that have it. Must run inside SPI.
void add_inputs(Binding& binding, const ClaimedSteps& steps);

}  // namespace pawl::dag
