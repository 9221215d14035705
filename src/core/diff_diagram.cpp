// Pure C++; throws core::Error. See diff.hpp: two diagrams as one.
#include <algorithm>
#include <map>
#include <set>

#include "diff.hpp"

namespace pawl::core {
namespace {

constexpr const char* added_style = "fill:#dafbe1,stroke:#1a7f37,color:#116329";
constexpr const char* changed_style = "fill:#fff8c5,stroke:#9a6700,color:#4d2d00";
constexpr const char* removed_style = "fill:#ffebe9,stroke:#cf222e,color:#82071e,stroke-dasharray:5 5";

using Key = std::vector<std::string>;

Key key_of(const DrawnTransition& drawn) {
    return {drawn.from, drawn.to, drawn.in, write_label(drawn.label)};
}

// How often each transition is drawn.
std::map<Key, int> counted(const Diagram& diagram) {
    std::map<Key, int> counts;
    for (const DrawnTransition& drawn : diagram.transitions) ++counts[key_of(drawn)];
    return counts;
}

DrawnTransition marked(DrawnTransition drawn, const char* mark) {
    const std::string label = write_label(drawn.label);
    drawn.text = label.empty() ? mark : mark + (" " + label);
    drawn.label = read_label(drawn.text);
    return drawn;
}

void add_states(const Diagram& before, const Diagram& after, Diagram& merged) {
    std::set<std::string> known;
    for (const DrawnState& state : after.states) {
        merged.states.push_back(state);
        known.insert(state.id);
    }
    for (const DrawnState& state : before.states)
        if (!known.contains(state.id)) merged.states.push_back(state);
    for (DrawnState& state : merged.states) {
        state.tags.clear();
        if (state.kind == StateKind::fork || state.kind == StateKind::join) state.kind = StateKind::state;
    }
}

void add_transitions(const Diagram& before, const Diagram& after, Diagram& merged) {
    std::map<Key, int> unmatched = counted(before);
    for (const DrawnTransition& drawn : after.transitions) {
        const auto same = unmatched.find(key_of(drawn));
        const bool is_new = same == unmatched.end() || same->second == 0;
        if (!is_new) --same->second;
        merged.transitions.push_back(is_new ? marked(drawn, "+") : drawn);
    }
    for (const DrawnTransition& drawn : before.transitions) {
        int& left = unmatched[key_of(drawn)];
        if (left == 0) continue;
        --left;
        merged.transitions.push_back(marked(drawn, "-"));
    }
}

// A state that something is drawn in is a composite, also where only the other diagram draws it so.
void mark_composites(Diagram& merged) {
    std::set<std::string> outer;
    for (const DrawnState& state : merged.states) outer.insert(state.parent);
    for (const DrawnTransition& drawn : merged.transitions) outer.insert(drawn.in);
    for (DrawnState& state : merged.states) {
        if (!outer.contains(state.id)) continue;
        state.composite = true;
        state.kind = StateKind::state;
    }
}

// Without composites: where those of the two diagrams contradict each other.
void flatten(Diagram& merged) {
    for (DrawnState& state : merged.states) {
        state.parent.clear();
        state.composite = false;
        state.direction.clear();
    }
    for (DrawnTransition& drawn : merged.transitions) drawn.in.clear();
}

// As it is read from its own text, which two diagrams together need not be.
Diagram reread(Diagram merged) {
    try {
        return read_mermaid(write_mermaid(merged));
    } catch (const Error&) {
        flatten(merged);
        return read_mermaid(write_mermaid(merged));
    }
}

}  // namespace

Diagram diff_diagram(const Diagram& before, const Diagram& after) {
    const std::vector<Change> changes = diff(compile(before), compile(after));
    Diagram merged;
    merged.title = after.title;
    merged.direction = after.direction;
    add_states(before, after, merged);
    add_transitions(before, after, merged);
    mark_composites(merged);
    for (const Change& change : changes) {
        if (!change.is_state()) continue;
        const auto state = std::find_if(merged.states.begin(), merged.states.end(),
                                        [&](const DrawnState& each) { return each.id == change.state; });
        state->tags = {"diff_" + std::string(name_of(change.kind))};
    }
    const auto used = [&](ChangeKind kind) {
        return std::any_of(changes.begin(), changes.end(),
                           [kind](const Change& change) { return change.is_state() && change.kind == kind; });
    };
    if (used(ChangeKind::added)) merged.class_defs.emplace_back("diff_added", added_style);
    if (used(ChangeKind::changed)) merged.class_defs.emplace_back("diff_changed", changed_style);
    if (used(ChangeKind::removed)) merged.class_defs.emplace_back("diff_removed", removed_style);
    return reread(std::move(merged));
}

}  // namespace pawl::core
