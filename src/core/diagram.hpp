// Pure C++; throws core::Error. A Mermaid state diagram as it is written: syntax, not yet meaning.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "error.hpp"

namespace pawl::core {

enum class StateKind { state, choice, fork, join };

struct DrawnState {
    std::string id;
    StateKind kind = StateKind::state;
    std::string parent;  // enclosing composite, empty at the top
    bool composite = false;
    std::vector<std::string> tags;  // from :::tag and `class a,b tag`, in the order of the text, without repeats
    std::string description;        // several lines are joined by '\n'
    std::string direction;          // of a composite; empty: as the diagram
    Place kind_where;               // of <<choice>>, <<fork>>, <<join>>
    Place where;
};

// event(params) [guards] after <interval> / effects; every part may be missing.
struct Label {
    std::string event;
    std::vector<std::string> params;
    std::vector<std::string> guards;
    std::string after;  // interval text as written, e.g. "30 minutes"
    std::vector<std::string> effects;

    bool operator==(const Label&) const = default;
};

struct DrawnTransition {
    std::string from;  // "[*]" for the start pseudo-state
    std::string to;    // "[*]" for the end pseudo-state
    std::string text;  // label as written
    Label label;       // the same, read
    std::string in;    // composite it is written in, empty at the top
    Place where;
};

// A `--`: what follows runs at the same time as what went before.
struct Region : Place {
    std::string in;                      // the composite it divides
    std::size_t transitions_before = 0;  // how many transitions of the diagram were drawn before it
};

// Something that is legal to draw but probably not what was meant; the linter reports it.
struct DiagramWarning {
    std::string code;
    Place where;
    std::string message;
};

struct Diagram {
    std::string title;
    std::string direction;
    std::vector<DrawnState> states;            // in order of first appearance
    std::vector<DrawnTransition> transitions;  // in the order of the text
    std::vector<std::pair<std::string, std::string>> class_defs;
    std::vector<Region> regions;
    std::vector<DiagramWarning> warnings;
};

// The maximum depth of composites inside composites.
inline constexpr int max_nesting = 200;

// Reads `stateDiagram` / `stateDiagram-v2`. Throws core::Error with line and column. Linear in the length of the text.
// A state belongs to the first composite that mentions it. Beyond Mermaid: names in double quotes (`"in progress" -->
// done`) and names with inner hyphens.
Diagram read_mermaid(std::string_view text);

// Reads one transition label. Never fails: text that does not fit the grammar is an event of that name.
Label read_label(std::string_view text);

// Writes the canonical text: read_mermaid(write_mermaid(d)) equals d, and equal machines give equal text.
std::string write_mermaid(const Diagram& diagram);
std::string write_label(const Label& label);
std::string write_dot(const Diagram& diagram, std::string_view name);

}  // namespace pawl::core
