// May ereport; owns nothing. The flows that a function works with.
#pragma once

#include "fire/plans.hpp"

namespace pawl::saga {

// A flow as it was when its row was read.
struct Flow {
    pg_uuid_t id;
    pg_uuid_t definition;
    bool open;             // RUNNING, SUSPENDING or SUSPENDED, in which a revert can be resolved: its nodes are counted
    bool begins;           // RUNNING and not broken: what is ready in it can be begun
    bool began;            // set by what counts its nodes: something in it can be claimed now
    bool changed = false;  // a trigger has changed it, or had it counted, before its atoms were counted
};

// Flows, in the order of their keys.
struct Flows {
    Flow* items;
    int n;

    Flow* find(const pg_uuid_t& id) const;  // null: it is none of them
};

// The same in the current memory context.
Flows copied(const Flows& flows);

// Reads the flows with these keys (uuid). locked: and locks their rows, in this order. `plans`: where the plan is
// kept. Must run inside SPI.
enum class Rows { read, locked };
Flows read_flows(Datum* keys, int nkeys, Rows rows, Binding& plans);

}  // namespace pawl::saga
