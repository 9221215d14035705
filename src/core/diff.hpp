// Pure C++; throws core::Error. What changes from one version of a machine to another: as rows, and as one diagram.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "machine.hpp"

namespace pawl::core {

enum class ChangeKind { removed, changed, added };

// One state or one transition. A transition is known by its two states and its event; what else is on its label are
// details.
struct Change {
    ChangeKind kind;
    std::string state;  // empty: a transition
    std::string from;   // of a transition; empty: it leads to an initial state
    std::string event;
    std::string to;
    std::string detail;  // what a changed one has now and had before; of a transition that comes or goes: its label

    bool is_state() const { return !state.empty(); }
};

std::string_view name_of(ChangeKind kind) noexcept;

// States first, then transitions; each removed, changed, added, in the order of the diagrams. Composites are resolved.
// Linear in the number of transitions.
std::vector<Change> diff(const Machine& before, const Machine& after);

// Both diagrams in one: classes diff_added, diff_changed and diff_removed, with their colours; labels of transitions
// that come begin with +, of those that go with -. Tags, styles and regions are left out. Throws what compile throws.
Diagram diff_diagram(const Diagram& before, const Diagram& after);

// States that go, each with the one that seems to take its place: with the same neighbours, events and role, if there
// is one such state only. A guess, for a person to confirm.
std::vector<std::pair<std::string, std::string>> likely_renames(const Machine& before, const Machine& after);

}  // namespace pawl::core
