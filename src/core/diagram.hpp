// Pure C++; throws core::Error. A Mermaid state diagram as it was drawn: syntax, not yet meaning.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "error.hpp"

namespace pawl::core {

enum class StateKind { state, choice, fork, join };

struct DrawnState {
    std::string id;
    StateKind kind = StateKind::state;
    std::string parent;  // enclosing composite, empty at the top
    bool composite = false;
    std::vector<std::string> tags;  // from :::tag and `class a,b tag`, in drawing order, no repeats
    std::string description;        // several lines are joined by '\n'
    Place where;
};

// event(params) [guards] after <interval> / effects; every part may be missing.
struct Label {
    std::string event;
    std::vector<std::string> params;
    std::vector<std::string> guards;
    std::string after;  // interval text as written, e.g. "30 minutes"
    std::vector<std::string> effects;
};

struct DrawnArrow {
    std::string from;  // "[*]" for the start pseudo-state
    std::string to;    // "[*]" for the end pseudo-state
    std::string text;  // label as written
    Label label;       // the same, read
    std::string in;    // composite it is written in, empty at the top
    Place where;
};

struct Diagram {
    std::string title;
    std::string direction;
    std::vector<DrawnState> states;  // in order of first appearance
    std::vector<DrawnArrow> arrows;  // in drawing order
    std::vector<std::pair<std::string, std::string>> class_defs;
    std::vector<Place> regions;      // places of `--` (concurrent regions)
};

// Reads `stateDiagram` / `stateDiagram-v2`. Throws core::Error with line and column.
Diagram read_mermaid(std::string_view text);

// Reads one arrow label; never fails: what fits no grammar is an event of that name.
Label read_label(std::string_view text);

// The canonical text: read_mermaid(write_mermaid(d)) gives d again, and equal machines give equal text.
std::string write_mermaid(const Diagram& diagram);
std::string write_label(const Label& label);
std::string write_dot(const Diagram& diagram, std::string_view name);

}  // namespace pawl::core
