// Constants and types. The atoms that a statement brought to an end, and where what follows from it is found.
#pragma once

#include "packs/saga/uncounted.hpp"

namespace pawl::saga {

// A task or a retry that came to an end, with what its follow-ups read of it.
struct Atom {
    pg_uuid_t flow;
    int32 node;
    Datum state;
    int32 blockers;
    Datum intention;
    NullableDatum failure;
};

// Ordered by flow and node.
struct Ended {
    Atom* atoms;
    int n;
    int room;
    bool tasks;    // else retries
    Moment since;  // when their statement began
    bool by_duty;  // a failure among them is no report of its worker: a duty recorded it
};

}  // namespace pawl::saga
