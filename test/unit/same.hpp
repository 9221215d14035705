// Compares two diagrams in everything but places.
#pragma once

#include <string>

#include "core/diagram.hpp"

namespace pawl::test {

// Empty when the diagrams mean the same; else the first thing in which they differ.
inline std::string difference(const core::Diagram& a, const core::Diagram& b) {
    if (a.title != b.title) return "title: " + a.title + " / " + b.title;
    if (a.direction != b.direction) return "direction: " + a.direction + " / " + b.direction;
    if (a.class_defs != b.class_defs) return "class definitions";
    if (a.states.size() != b.states.size()) return "number of states";
    for (std::size_t i = 0; i < a.states.size(); ++i) {
        const core::DrawnState& x = a.states[i];
        const core::DrawnState& y = b.states[i];
        if (x.id != y.id) return "states: " + x.id + " / " + y.id;
        if (x.kind != y.kind) return "kind of " + x.id;
        if (x.parent != y.parent) return "parent of " + x.id + ": " + x.parent + " / " + y.parent;
        if (x.composite != y.composite) return "composite " + x.id;
        if (x.tags != y.tags) return "tags of " + x.id;
        if (x.description != y.description)
            return "description of " + x.id + ": " + x.description + " / " + y.description;
        if (x.direction != y.direction) return "direction of " + x.id;
    }
    if (a.transitions.size() != b.transitions.size()) return "number of arrows";
    for (std::size_t i = 0; i < a.transitions.size(); ++i) {
        const core::DrawnTransition& x = a.transitions[i];
        const core::DrawnTransition& y = b.transitions[i];
        const std::string transition = x.from + " --> " + x.to;
        if (x.from != y.from || x.to != y.to) return "arrows: " + transition + " / " + y.from + " --> " + y.to;
        if (x.in != y.in) return "place of " + transition + ": " + x.in + " / " + y.in;
        if (!(x.label == y.label)) return "label of " + transition + ": " + x.text + " / " + y.text;
    }
    if (a.regions.size() != b.regions.size()) return "number of regions";
    for (std::size_t i = 0; i < a.regions.size(); ++i) {
        if (a.regions[i].in != b.regions[i].in || a.regions[i].transitions_before != b.regions[i].transitions_before)
            return "regions";
    }
    return {};
}

}  // namespace pawl::test
