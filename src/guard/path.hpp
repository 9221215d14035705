// May ereport; owns nothing. Several transitions in one write: the path that a row takes from its old state to its new
// one, by the events that the caller has listed. Each transition is decided as if it had been written alone.
#pragma once

#include "guard/managed_columns.hpp"
#include "guard/rejection.hpp"

namespace pawl {

// A decided transition of a row.
struct PathStep {
    int transition;
    const text* processor;  // that acts; null: by the settings
    Jsonb* added;           // joined to the metadata of its log entry; may be null
    TimestampTz at;         // 0: now
    int64 token;            // the fencing token after it; negative: none
};

// The transitions that one write makes of a row, in their order.
struct Path {
    int n;
    PathStep steps[max_listed_events];
};

// The same, if only the transitions matter.
struct Transitions {
    int n;
    int transitions[max_listed_events];
};

Transitions transitions_of(const Path& path);

// An update to decide.
struct Walk {
    Oid relation;      // the table that the new version is in
    Binding& binding;  // of that table
    const Binding& before_of;
    Row before;
    Row after;
    core::StateId from;
    core::StateId to;  // no_state: wherever the events lead
    const EventList& events;
    Intent* intent;
    ManagedUpdate* managed_update;  // gets the values of managed columns; null: they are not kept here
};

// Decides the transitions in their order. Guards see rows with the states between, otherwise as the statement leaves
// them. The caller must be the owner wherever one is needed; the fencing token that it shows is compared once. Returns
// the rejection of the first transition that is not allowed, which names the event; null: *path is complete.
const Rejection* walk(const Walk& asked, Path* path);

// Asks the guards of the transitions of a path again, for rows that are made of the stored one. Null: all return true;
// else the guard that does not.
const char* guard_against(Oid relation, Binding& binding, const Binding& before_of, const Transitions& path,
                          const Row& before, const Row& after);

// Runs the effects of the transitions of a path, in their order.
void run_effects_of(Oid relation, Binding& binding, const Binding& before_of, const Transitions& path,
                    const Row& before, const Row& after);

}  // namespace pawl
