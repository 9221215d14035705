// Pure C++; throws core::Error. A compiled machine: the states and transitions of one state column, with fast look-ups.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagram.hpp"

namespace pawl::core {

using StateId = std::int32_t;
inline constexpr StateId no_state = -1;

struct State {
    std::string name;
    StateKind kind = StateKind::state;
    bool composite = false;
    StateId parent = no_state;
    bool initial = false;           // atomic states only: a row may begin here
    bool terminal = false;          // atomic states only
    std::vector<std::string> tags;  // own tags, then those of the enclosing composites
    std::string description;
};

struct Transition {
    StateId from = no_state;  // no_state: `to` is an initial state
    StateId to = no_state;
    std::string event;  // empty: the transition has no name
    std::vector<std::string> params;
    std::vector<std::string> guards;
    std::vector<std::string> effects;
    std::vector<std::string> notes;
    std::string after;
    std::string drawn_from;  // the composite that this transition was drawn from, else empty
    Place where;
};

// States and transitions are added in order, then index() makes the look-ups; immutable afterwards.
class Machine {
public:
    StateId add(State state);
    void add(Transition transition);
    void index();

    const std::vector<State>& states() const { return states_; }
    const std::vector<Transition>& transitions() const { return transitions_; }

    // The atomic state of this name, or no_state. Constant time, no allocation.
    StateId find(std::string_view name) const noexcept;

    // Transitions from -> to in diagram order, as indexes into transitions(). from = no_state: initial states. Constant
    // time, no allocation.
    std::span<const std::int32_t> between(StateId from, StateId to) const noexcept;

    // All transitions that leave a state, in diagram order. from = no_state: initial states.
    std::span<const std::int32_t> leaving(StateId from) const noexcept;

    bool knows_event(std::string_view event) const noexcept;

private:
    std::vector<State> states_;
    std::vector<Transition> transitions_;
    struct Slot {  // one place of an open-addressing table
        std::uint64_t key = 0;
        std::int32_t first = -1;  // -1: free
        std::int32_t count = 0;
    };

    void index_names();
    void index_transitions();
    const Slot* pair_slot(StateId from, StateId to) const noexcept;
    bool valid(StateId state) const noexcept {
        return state >= no_state && state < static_cast<StateId>(states_.size());
    }

    std::vector<Slot> names_;            // hash of a name -> atomic state
    std::vector<Slot> events_;           // hash of an event -> a transition that has it
    std::vector<Slot> pairs_;            // from and to -> run in by_pair_
    std::vector<std::int32_t> by_pair_;  // transitions by from, to, diagram order
    std::vector<std::int32_t> by_from_;  // transitions by from, diagram order
    std::vector<std::int32_t> starts_;   // where the run of each from begins in by_from_; that of no_state is at 0
};

// The maximum number of compiled transitions; composites and choices multiply those of the diagram.
inline constexpr std::size_t max_transitions = 250'000;

// Flattens composites and choices. Throws core::Error for regions, fork, join, a transition to a composite without an
// initial child, a cycle of choices, a reserved event name ("pawl."), no initial state, more than max_transitions
// transitions.
//
// A transition from a composite leaves every atomic state in it, except where an inner transition has the same event;
// transitions without an event never hide one another. A label on `[*] --> child` inside a composite lends its guards
// and effects to the transitions that enter there. Transitions that agree in from, to, event, guards, effects and
// interval are kept once.
Machine compile(const Diagram& diagram);

enum class Severity { error, warning, info };

struct Finding {
    Severity severity;
    std::string code;  // e.g. "unreachable_state"
    Place where;
    std::string message;
};

// Returns findings about a diagram. Definition errors of compile() are findings of severity error.
std::vector<Finding> lint(std::string_view text);

}  // namespace pawl::core
