// May ereport; owns nothing. Reads the states of a row from its old and new version.
#pragma once

#include "guard/decide.hpp"

namespace pawl {

// The states of a row before and after; if the row changes partition, the bindings differ.
struct States {
    core::StateId from, to;
    text* from_text;
    text* to_text;
    bool stays;               // the state is the same, and no transition that leads back to it is meant
    const EventList* events;  // that were listed; null: one transition
    bool enters = false;      // the row is in an unknown state of before the binding, and enters the machine
};

States states_of(const Binding& before_of, const Row& before, const Binding& after_of, const Row& after,
                 const Intent* intent);

// The same for a row that takes transitions which have been decided already.
States moving_states_of(const Binding& before_of, const Row& before, const Binding& after_of, const Row& after);

// A state's text, valid as long as the entry buffer needs it. The text of a state unknown to the machine is allocated
// once for consecutive rows in that state.
text* lasting_text(const Binding& binding, core::StateId state, Datum value, bool null);

void forget_state_texts() noexcept;  // end of transaction

}  // namespace pawl
