// May ereport; owns nothing. The events that a statement lists for its rows, each of which takes several transitions.
#pragma once

#include "guard/intent.hpp"

namespace pawl {

// The events that apply to a row of this binding, changed by the current statement: those of the function that runs it,
// else those of the setting pawl.events. Null: none, or the machine knows none of them. Raises PW008 if it knows some
// of them only.
const EventList* events_for(const Binding& binding, const Intent* intent);

// Whether the current statement takes rows of the table through several transitions: it lists events, and a machine of
// the table knows them. May throw.
bool takes_list(Relation relation, Asking asking);

// Raises that rows of the table take one transition at a time.
[[noreturn]] void reject_list(Relation relation);

// For row triggers that look at the states before and after a statement, as if it took one transition: raises if it
// takes several.
void require_one_transition(Relation relation);

// Whether the events can lead a row from a state back to it, whatever guards say.
bool may_lead_back(const Binding& binding, core::StateId state, const EventList& events);

const char* quoted_events(const EventList& events);  // for messages

}  // namespace pawl
