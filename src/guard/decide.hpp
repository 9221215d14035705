// May ereport, where guards do; owns nothing. Decides a state change: which transition a row takes, or why it takes
// none. Writes nothing and raises no rejection; apply.hpp does both.
#pragma once

#include "guard/functions.hpp"
#include "guard/intent.hpp"
#include "guard/ownership.hpp"

namespace pawl {

inline constexpr int no_transition = -1;

// A row version and the slot to read it from.
struct Row {
    TupleTableSlot* slot;
    HeapTuple tuple;
};

// The arguments of guards and effects for an update. If the row changes partition, the two bindings differ.
RowVersions versions_of(const Row& before, const Binding& before_of, const Row& after, const Binding& after_of);

// A state change to decide.
struct Question {
    Binding& binding;    // of the table that the new version is in
    core::StateId from;  // no_state: the row is new
    core::StateId to;
    const Intent* intent;        // null: none
    const Ownership* ownership;  // the actor and the row's owner; null: ownership is not checked
};

// The first reason why a matching transition was not allowed: a guard, or ownership. Neither: no transition matches.
struct RejectionReason {
    const char* guard;
    OwnershipFault fault;

    bool any() const { return guard != nullptr || fault != OwnershipFault::none; }
};

struct Decision {
    int transition;          // no_transition: the state change is rejected
    RejectionReason reason;  // if rejected
    const text* event;       // if rejected: another event that leads there; may be null
};

// Whether a transition has this event.
bool has_event(const Binding& binding, int transition, const text* event);

// Decides for the first transition, in diagram order, that matches the event, that ownership and attempts allow, and
// whose guards return true.
Decision decide(const Question& question, const RowVersions& row);

// Whether a row whose state does not change takes a self-transition: only if an event of one was named.
bool is_self_transition(const Binding& binding, core::StateId state, const Intent* intent);

}  // namespace pawl
