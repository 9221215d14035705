// May ereport, where guards do; owns nothing. Decides a state change: which transition a row takes, or why it takes none. Nothing is written
// and nothing is raised for a row that may not change; apply.hpp does that.
#pragma once

#include "guard/functions.hpp"
#include "guard/intent.hpp"
#include "guard/ownership.hpp"

namespace pawl {

inline constexpr int no_arrow = -1;

// A row version with the slot it can be read from.
struct Row {
    TupleTableSlot* slot;
    HeapTuple tuple;
};

// What guards and effects see of an update; a row that changes partition is described by the attachments of both tables.
RowVersions versions_of(const Row& before, const Attachment& before_of, const Row& after, const Attachment& after_of);

// A row is to go from one state to another.
struct Question {
    Attachment& attachment;  // of the table that the row goes to
    core::StateId from;      // no_state: the row is new
    core::StateId to;
    const Intent* intent;      // null: none
    const Standing* standing;  // who acts, and whose the row is; null: ownership is not asked
};

// What first kept the row from an arrow that it was meant to take: a guard, or ownership; neither: there is no such arrow.
struct Objection {
    const char* guard;
    Bar bar;

    bool any() const { return guard != nullptr || bar != Bar::none; }
};

struct Decision {
    int arrow;            // no_arrow: the row may not go there
    Objection objection;  // why not
    const text* event;    // why not: another event leads there; null: no event does
};

// The first arrow, in drawing order, that the event means, that ownership and attempts allow and whose guards say yes.
Decision decide(const Question& question, const RowVersions& row);

// A row whose state stays takes no transition, unless an event was named that leads from the state to itself.
bool is_self_transition(const Attachment& attachment, core::StateId state, const Intent* intent);

}  // namespace pawl
