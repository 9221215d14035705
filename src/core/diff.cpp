// Pure C++; throws only bad_alloc. See diff.hpp: changes as rows.
#include "diff.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace pawl::core {
namespace {

std::string list(const std::vector<std::string>& items) {
    std::string text;
    for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
    return text.empty() ? "none" : text;
}

std::string kind_of(const State& state) {
    return state.composite ? "composite" : state.kind == StateKind::choice ? "choice" : "state";
}

std::string parent_of(const Machine& machine, const State& state) {
    return state.parent == no_state ? "" : machine.states()[static_cast<std::size_t>(state.parent)].name;
}

void add_detail(std::string& detail, const std::string& part) {
    detail += (detail.empty() ? "" : "; ") + part;
}

void say_flag(std::string& detail, const char* name, bool before, bool after) {
    if (before != after) add_detail(detail, std::string(after ? "now " : "no longer ") + name);
}

// What differs between a state of both machines; empty: nothing.
std::string state_detail(const Machine& before, const State& old_state, const Machine& after, const State& new_state) {
    std::string detail;
    if (kind_of(old_state) != kind_of(new_state)) add_detail(detail, kind_of(old_state) + " -> " + kind_of(new_state));
    say_flag(detail, "initial", old_state.initial, new_state.initial);
    say_flag(detail, "terminal", old_state.terminal, new_state.terminal);
    if (old_state.tags != new_state.tags)
        add_detail(detail, "tags: " + list(old_state.tags) + " -> " + list(new_state.tags));
    const std::string old_parent = parent_of(before, old_state), new_parent = parent_of(after, new_state);
    if (old_parent != new_parent)
        add_detail(detail, new_parent.empty() ? "moved out of " + old_parent : "moved into " + new_parent);
    if (old_state.description != new_state.description) add_detail(detail, "another description");
    return detail;
}

std::string state_role(const State& state) {
    std::string detail;
    if (kind_of(state) != "state") add_detail(detail, kind_of(state));
    if (state.initial) add_detail(detail, "initial");
    if (state.terminal) add_detail(detail, "terminal");
    if (!state.tags.empty()) add_detail(detail, "tags: " + list(state.tags));
    return detail;
}

using States = std::unordered_map<std::string_view, const State*>;

States states_of(const Machine& machine) {
    States states;
    for (const State& state : machine.states()) states.emplace(state.name, &state);
    return states;
}

void diff_states(const Machine& before, const Machine& after, std::vector<Change>& changes) {
    const States old_states = states_of(before), new_states = states_of(after);
    for (const State& state : before.states())
        if (!new_states.contains(state.name))
            changes.push_back({ChangeKind::removed, state.name, {}, {}, {}, state_role(state)});
    for (const State& state : after.states()) {
        const auto old_state = old_states.find(state.name);
        if (old_state == old_states.end()) continue;
        const std::string detail = state_detail(before, *old_state->second, after, state);
        if (!detail.empty()) changes.push_back({ChangeKind::changed, state.name, {}, {}, {}, detail});
    }
    for (const State& state : after.states())
        if (!old_states.contains(state.name))
            changes.push_back({ChangeKind::added, state.name, {}, {}, {}, state_role(state)});
}

// A transition with the names of its states, and its label without the event.
struct Named {
    std::string from, event, to, label;
    bool paired = false;
};

std::vector<Named> transitions_of(const Machine& machine) {
    std::vector<Named> named;
    for (const Transition& each : machine.transitions()) {
        std::string label = write_label({"", each.params, each.guards, each.after, each.effects});
        for (const std::string& note : each.notes) label += (label.empty() ? "" : " ") + note;
        named.push_back({each.from == no_state ? "" : machine.states()[static_cast<std::size_t>(each.from)].name,
                         each.event, machine.states()[static_cast<std::size_t>(each.to)].name, std::move(label)});
    }
    return named;
}

using Groups = std::unordered_map<std::string, std::vector<Named*>>;

// Those of the same states and event.
std::string group_of(const Named& each) {
    return each.from + '\0' + each.event + '\0' + each.to;
}

Change change_of(ChangeKind kind, const Named& each, std::string detail) {
    return {kind, {}, each.from, each.event, each.to, std::move(detail)};
}

std::string shown_label(const std::string& label) {
    return label.empty() ? "no condition" : label;
}

// Pairs equal labels first, then the others in their order; returns the changed ones.
void pair_group(std::vector<Named*>& old_ones, std::vector<Named*>& new_ones, std::vector<Change>& changed) {
    const auto free = [](const Named* each) { return !each->paired; };
    std::multimap<std::string_view, Named*> by_label;
    for (Named* each : old_ones) by_label.emplace(each->label, each);
    for (Named* each : new_ones) {
        const auto equal = by_label.find(each->label);
        if (equal == by_label.end()) continue;
        each->paired = equal->second->paired = true;
        by_label.erase(equal);
    }
    auto old_one = old_ones.begin();
    for (Named* each : new_ones) {
        if (each->paired) continue;
        old_one = std::find_if(old_one, old_ones.end(), free);
        if (old_one == old_ones.end()) return;
        each->paired = (*old_one)->paired = true;
        changed.push_back(
            change_of(ChangeKind::changed, *each, shown_label((*old_one)->label) + " -> " + shown_label(each->label)));
    }
}

void diff_transitions(const Machine& before, const Machine& after, std::vector<Change>& changes) {
    std::vector<Named> old_ones = transitions_of(before), new_ones = transitions_of(after);
    // that a state is initial is said of the state
    const States old_states = states_of(before), new_states = states_of(after);
    const auto said = [](const States& others, const Named& each) {
        const auto other = each.from.empty() ? others.find(each.to) : others.end();
        return each.from.empty() && (other == others.end() || !other->second->initial);
    };
    std::erase_if(old_ones, [&](const Named& each) { return said(new_states, each); });
    std::erase_if(new_ones, [&](const Named& each) { return said(old_states, each); });

    Groups old_groups, new_groups;
    for (Named& each : old_ones) old_groups[group_of(each)].push_back(&each);
    for (Named& each : new_ones) new_groups[group_of(each)].push_back(&each);
    std::vector<Change> changed;
    for (const Named& each : new_ones) {  // in the order of the diagram
        const auto group = new_groups.find(group_of(each));
        if (group->second.front() != &each) continue;
        if (const auto old_group = old_groups.find(group->first); old_group != old_groups.end())
            pair_group(old_group->second, group->second, changed);
    }
    for (const Named& each : old_ones)
        if (!each.paired) changes.push_back(change_of(ChangeKind::removed, each, each.label));
    std::move(changed.begin(), changed.end(), std::back_inserter(changes));
    for (const Named& each : new_ones)
        if (!each.paired) changes.push_back(change_of(ChangeKind::added, each, each.label));
}

// The neighbours of a state and the events between, where a state that only one machine has is any state.
using Surroundings = std::multiset<std::string>;

std::map<std::string, Surroundings> surroundings(const Machine& machine, const States& others) {
    std::map<std::string, Surroundings> result;
    for (const State& state : machine.states())
        if (!state.composite && state.kind == StateKind::state && !others.contains(state.name))
            result[state.name].insert(state_role(state));
    const auto known = [&](const std::string& name) { return others.contains(name) ? name : std::string("\1"); };
    for (const Named& each : transitions_of(machine)) {
        if (const auto from = result.find(each.from); from != result.end())
            from->second.insert('>' + each.event + '\0' + known(each.to));
        if (const auto to = result.find(each.to); to != result.end())
            to->second.insert('<' + each.event + '\0' + known(each.from));
    }
    return result;
}

}  // namespace

std::string_view name_of(ChangeKind kind) noexcept {
    return kind == ChangeKind::removed ? "removed" : kind == ChangeKind::changed ? "changed" : "added";
}

std::vector<Change> diff(const Machine& before, const Machine& after) {
    std::vector<Change> changes;
    diff_states(before, after, changes);
    diff_transitions(before, after, changes);
    return changes;
}

std::vector<std::pair<std::string, std::string>> likely_renames(const Machine& before, const Machine& after) {
    const auto gone = surroundings(before, states_of(after)), come = surroundings(after, states_of(before));
    std::map<Surroundings, std::vector<std::string>> places, former;
    for (const auto& [state, around] : come) places[around].push_back(state);
    for (const auto& [state, around] : gone) former[around].push_back(state);
    std::vector<std::pair<std::string, std::string>> renames;
    for (const auto& [state, around] : gone) {
        const auto place = places.find(around);
        const bool single = place != places.end() && place->second.size() == 1 && former[around].size() == 1;
        if (single && around.size() > 1) renames.emplace_back(state, place->second.front());
    }
    return renames;
}

}  // namespace pawl::core
