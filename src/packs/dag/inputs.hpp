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
    bool found;                  // its task was
    bool knows_parents;          // they were formed already
    const struct Parent* ended;  // what it depends on, by name, where it does not know them
    int nended;
    double rank;  // its place in the order of claims, if it was read
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
    bool has_result;
    Datum result;  // not detoasted
};

// What a worker is told of parents that are sorted by name.
Datum parents_object(const Parent* sorted, int n);

// Reads the columns of a row of pawl_dag.steps that are the step's own.
void read_step(ClaimedStep* read, HeapTuple row, TupleDesc descriptor);

// Looks up what belongs to their tasks, and their parents, for steps of which the columns of their own are read; not
// for those that have it. Must run inside SPI.
void find_inputs(Binding& binding, const ClaimedSteps& steps);

// Whether the input of a step is in the rows that were read, and too small to raise an error when it is formed or sent.
bool is_small(const ClaimedStep& step);

// The length of a context as text.
struct Measured {
    Datum context;
    int64 size;
};

// Forms the input of a step whose task was found, in the current memory context. Raises 54000 if it is larger than a
// jsonb value, or its row than a message to a client, can be.
void form_input(ClaimedStep& step, Measured& measured);

}  // namespace pawl::dag
