// May ereport, where guards do; owns nothing. Decides a state change: which transition a row takes, or why it takes
// none. Nothing is written and nothing is raised for a row that may not change; apply.hpp does that.
#pragma once

#include "guard/functions.hpp"
#include "guard/intent.hpp"
#include "guard/ownership.hpp"

namespace pawl {

inline constexpr int no_transition = -1;

// A row version with the slot it can be read from.
struct Row {
    TupleTableSlot* slot;
    HeapTuple tuple;
};

// What guards and effects see of an update; a row that changes partition is described by the bindings of both tables.
RowVersions versions_of(const Row& before, const Binding& before_of, const Row& after, const Binding& after_of);

// A row is to go from one state to another.
struct Question {
    Binding& binding;    // of the table that the row goes to
    core::StateId from;  // no_state: the row is new
    core::StateId to;
    const Intent* intent;        // null: none
    const Ownership* ownership;  // who acts, and whose the row is; null: ownership is not asked
};

// What first kept the row from a transition that it was meant to take: a guard, or ownership; neither: there is no
// such transition.
struct RejectionReason {
    const char* guard;
    OwnershipFault fault;

    bool any() const { return guard != nullptr || fault != OwnershipFault::none; }
};

struct Decision {
    int transition;          // no_transition: the row may not go there
    RejectionReason reason;  // why not
    const text* event;       // why not: another event leads there; null: no event does
};

// The first transition, in drawing order, that the event means, that ownership and attempts allow and whose guards say
// yes.
Decision decide(const Question& question, const RowVersions& row);

// A row whose state stays takes no transition, unless an event was named that leads from the state to itself.
bool is_self_transition(const Binding& binding, core::StateId state, const Intent* intent);

}  // namespace pawl
