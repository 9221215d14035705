// Pure C++; throws core::Error. Compiles a diagram to transitions between atomic states.
#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "concurrency.hpp"
#include "machine.hpp"
#include "scanner.hpp"

namespace pawl::core {
namespace {

constexpr std::size_t max_steps = 5'000'000;          // limits the time,
constexpr std::size_t max_bytes = 128 * 1024 * 1024;  // and the memory, that a small diagram can be expanded to

bool is_pseudo(std::string_view id) {
    return id == "[*]";
}

// The atomic state where a transition ends, with the guards and effects on the way there.
struct Target {
    StateId to = no_state;  // no_state: the end pseudo-state, reached through a choice
    std::string_view in;    // for the end pseudo-state: the composite it is drawn in
    std::vector<std::string> guards;
    std::vector<std::string> effects;
};

class Compiler {
public:
    explicit Compiler(const Diagram& diagram) : diagram_(diagram) {}

    Machine run();

private:
    using Ids = std::vector<StateId>;
    using Targets = std::vector<Target>;

    const State& state(StateId id) const { return states_[static_cast<std::size_t>(id)]; }
    StateId id(const std::string& name) const { return ids_.at(name); }
    bool is_choice(StateId id) const { return state(id).kind == StateKind::choice; }

    void check_transitions() const;
    void make_states();
    void inherit_tags();
    void sort_transitions();
    void mark_terminal();
    bool leaves_by_itself(StateId composite) const;
    const Ids& atomic_states(StateId composite);
    const Targets& resolve(StateId target, Place where, int depth = 0);
    void resolve_through(Targets& targets, const DrawnTransition& transition, bool branch, Place where, int depth);
    bool hidden(StateId from, StateId composite, const DrawnTransition& drawn);
    void expand(const DrawnTransition& drawn);
    void emit(StateId from, const DrawnTransition& drawn, StateId drawn_from, const Target& target);
    void spend(std::size_t steps, std::size_t bytes, Place where);

    const Diagram& diagram_;
    std::vector<State> states_;
    std::vector<Transition> transitions_;
    std::unordered_map<std::string_view, StateId> ids_;
    std::vector<Ids> children_;
    std::vector<std::vector<const DrawnTransition*>>
        entries_;                                  // of a composite: its [*] --> child; of a choice: its branches
    std::unordered_set<std::string> own_events_;   // "state id, event" of drawn transitions
    std::vector<bool> has_exit_;                   // a transition to a state is drawn from it
    std::unordered_set<std::string_view> ending_;  // composites where a transition to [*] ends the row's life
    std::vector<std::unique_ptr<Ids>> atomic_;
    std::vector<std::unique_ptr<Targets>> targets_;
    std::vector<bool> resolving_;
    std::unordered_set<std::string> seen_;
    std::size_t steps_ = 0;
    std::size_t bytes_ = 0;
};

std::string event_key(StateId from, const std::string& event) {
    return std::to_string(from) + ' ' + event;
}

Machine Compiler::run() {
    const std::vector<Error> concurrency = find_concurrency(diagram_, 1);
    if (!concurrency.empty()) throw concurrency.front();
    check_transitions();
    make_states();
    sort_transitions();
    mark_terminal();
    for (const DrawnTransition& drawn : diagram_.transitions) expand(drawn);
    if (std::none_of(states_.begin(), states_.end(), [](const State& each) { return each.initial; })) {
        const Place where = diagram_.states.empty() ? Place{} : diagram_.states.front().where;
        throw Error("the diagram has no initial state", where, "No row could ever be inserted.",
                    "add a transition: [*] --> <first state>", "no_initial_state");
    }
    Machine machine;
    for (State& each : states_) machine.add(std::move(each));
    for (Transition& each : transitions_) machine.add(std::move(each));
    machine.index();
    return machine;
}

void Compiler::check_transitions() const {
    for (const DrawnTransition& drawn : diagram_.transitions) {
        if (is_pseudo(drawn.from) && is_pseudo(drawn.to)) {
            throw Error("a transition from [*] to [*] has no effect", drawn.where, {},
                        "name a state at one of the ends");
        }
        if (same_word(std::string_view(drawn.label.event).substr(0, 5), "pawl.")) {
            throw Error("event " + quote(drawn.label.event) + " has a reserved name", drawn.where,
                        "Event names that begin with \"pawl.\" are reserved.", {}, "reserved_event");
        }
    }
}

void Compiler::make_states() {
    for (const DrawnState& drawn : diagram_.states) {
        ids_.emplace(drawn.id, static_cast<StateId>(states_.size()));
        State made;
        made.name = drawn.id;
        made.kind = drawn.kind;
        made.composite = drawn.composite;
        made.tags = drawn.tags;
        made.description = drawn.description;
        states_.push_back(std::move(made));
    }
    children_.resize(states_.size());
    for (std::size_t i = 0; i < states_.size(); ++i) {
        if (diagram_.states[i].parent.empty()) continue;
        states_[i].parent = id(diagram_.states[i].parent);
        children_[static_cast<std::size_t>(states_[i].parent)].push_back(static_cast<StateId>(i));
    }
    inherit_tags();
    atomic_.resize(states_.size());
    targets_.resize(states_.size());
    resolving_.resize(states_.size());
    entries_.resize(states_.size());
    has_exit_.resize(states_.size());
}

void Compiler::inherit_tags() {
    for (std::size_t i = 0; i < states_.size(); ++i) {
        std::unordered_set<std::string_view> known;
        for (StateId at = states_[i].parent; at != no_state; at = state(at).parent) {
            const DrawnState& outer = diagram_.states[static_cast<std::size_t>(at)];
            if (outer.tags.empty()) continue;
            if (known.empty()) known.insert(diagram_.states[i].tags.begin(), diagram_.states[i].tags.end());
            for (const std::string& tag : outer.tags) {
                spend(1, sizeof(std::string) + tag.size(), diagram_.states[i].where);
                if (known.insert(tag).second) states_[i].tags.push_back(tag);
            }
        }
    }
}

void Compiler::sort_transitions() {
    for (const DrawnTransition& drawn : diagram_.transitions) {
        if (is_pseudo(drawn.from)) {
            if (!drawn.in.empty()) entries_[static_cast<std::size_t>(id(drawn.in))].push_back(&drawn);
            continue;
        }
        const StateId from = id(drawn.from);
        if (is_choice(from)) {
            entries_[static_cast<std::size_t>(from)].push_back(&drawn);
        } else if (!is_pseudo(drawn.to)) {
            has_exit_[static_cast<std::size_t>(from)] = true;
            if (!drawn.label.event.empty()) own_events_.insert(event_key(from, drawn.label.event));
        }
    }
}

bool Compiler::leaves_by_itself(StateId composite) const {
    for (StateId at = composite; at != no_state; at = state(at).parent) {
        if (has_exit_[static_cast<std::size_t>(at)]) return true;
    }
    return false;
}

// A transition to [*] inside a composite ends only the composite. It ends the row's life where the composite has no
// transition that leaves it, or itself has a transition to [*].
void Compiler::mark_terminal() {
    std::unordered_map<std::string_view, std::vector<const DrawnTransition*>>
        ends;  // by the composite they are drawn in
    for (const DrawnTransition& drawn : diagram_.transitions) {
        if (is_pseudo(drawn.to) && !is_choice(id(drawn.from))) ends[drawn.in].push_back(&drawn);
    }
    std::vector<std::string_view> open{""};
    ending_.insert("");
    for (std::size_t i = 0; i < states_.size(); ++i) {
        if (states_[i].composite && !leaves_by_itself(static_cast<StateId>(i)) &&
            ending_.insert(states_[i].name).second) {
            open.push_back(states_[i].name);
        }
    }
    while (!open.empty()) {
        const auto here = ends.find(open.back());
        open.pop_back();
        if (here == ends.end()) continue;
        for (const DrawnTransition* drawn : here->second) {
            State& ended = states_[static_cast<std::size_t>(id(drawn->from))];
            ended.terminal = true;
            if (ended.composite && ending_.insert(ended.name).second) open.push_back(ended.name);
        }
    }
    for (State& each : states_) {
        for (StateId at = each.parent; at != no_state && !each.terminal; at = state(at).parent) {
            each.terminal = state(at).composite && state(at).terminal;
        }
    }
    for (State& each : states_) each.terminal = each.terminal && !each.composite && each.kind == StateKind::state;
}

const Compiler::Ids& Compiler::atomic_states(StateId composite) {
    auto& known = atomic_[static_cast<std::size_t>(composite)];
    if (known) return *known;
    known = std::make_unique<Ids>();
    Ids open{composite};
    while (!open.empty()) {
        const StateId at = open.back();
        open.pop_back();
        if (!state(at).composite && state(at).kind == StateKind::state) known->push_back(at);
        for (const StateId child : children_[static_cast<std::size_t>(at)]) open.push_back(child);
        spend(1, sizeof(StateId), diagram_.states[static_cast<std::size_t>(composite)].where);
    }
    std::sort(known->begin(), known->end());
    return *known;
}

// The atomic states that a transition to `target` enters, through initial children of composites and branches of
// choices.
const Compiler::Targets& Compiler::resolve(StateId target, Place where, int depth) {
    const auto at = static_cast<std::size_t>(target);
    if (targets_[at]) return *targets_[at];
    const bool choice = is_choice(target);
    if (resolving_[at]) {
        throw Error(
            std::string(choice ? "choice " : "composite state ") + quote(state(target).name) + " leads back to itself",
            where, "No state can be reached that way.", {}, choice ? "choice_cycle" : "entry_cycle");
    }
    if (depth > max_nesting) {
        throw Error("choices and composite states are chained more than " + std::to_string(max_nesting) + " deep",
                    where, {}, {}, "too_deep");
    }
    resolving_[at] = true;
    Targets targets;
    if (!choice && !state(target).composite) {
        targets.push_back({target, {}, {}, {}});
    } else {
        for (const DrawnTransition* each : entries_[at]) resolve_through(targets, *each, choice, where, depth);
    }
    resolving_[at] = false;
    if (targets.empty() && choice) {
        throw Error("choice " + quote(state(target).name) + " has no outgoing transition", where, {}, {},
                    "empty_choice");
    }
    if (targets.empty()) {
        throw Error(
            "a transition enters the composite state " + quote(state(target).name) + ", which has no initial child",
            where, "A row can only be in one of the states inside it.",
            "add [*] --> <child> inside it, or let the transition lead to a state inside it", "no_initial_child");
    }
    targets_[at] = std::make_unique<Targets>(std::move(targets));
    return *targets_[at];
}

void Compiler::resolve_through(Targets& targets, const DrawnTransition& transition, bool branch, Place where,
                               int depth) {
    Target first;
    first.guards = transition.label.guards;
    first.effects = transition.label.effects;
    if (branch && !transition.label.event.empty()) {  // free text on a branch is its condition
        Label condition;
        condition.event = transition.label.event;
        condition.params = transition.label.params;
        first.guards.insert(first.guards.begin(), write_label(condition));
    }
    first.in = transition.in;
    const Targets end{Target{}};
    const bool ends = is_pseudo(transition.to);
    for (const Target& onward : ends ? end : resolve(id(transition.to), where, depth + 1)) {
        Target target = first;
        target.to = onward.to;
        if (!ends && onward.to == no_state) target.in = onward.in;
        target.guards.insert(target.guards.end(), onward.guards.begin(), onward.guards.end());
        target.effects.insert(target.effects.end(), onward.effects.begin(), onward.effects.end());
        std::size_t bytes = sizeof(Target);
        for (const auto* list : {&target.guards, &target.effects}) {
            for (const std::string& each : *list) bytes += sizeof(std::string) + each.size();
        }
        spend(1, bytes, transition.where);
        targets.push_back(std::move(target));
    }
}

// True if a state inside the composite, on the way to it, has a transition of its own for the event.
bool Compiler::hidden(StateId from, StateId composite, const DrawnTransition& drawn) {
    for (StateId at = from; at != composite; at = state(at).parent) {
        spend(1, 0, drawn.where);
        if (!drawn.label.event.empty() && own_events_.contains(event_key(at, drawn.label.event))) return true;
    }
    return false;
}

void Compiler::expand(const DrawnTransition& drawn) {
    if (is_pseudo(drawn.to)) return;
    if (is_pseudo(drawn.from)) {
        if (!drawn.in.empty()) return;
        for (const Target& target : resolve(id(drawn.to), drawn.where)) {
            if (target.to == no_state) continue;
            states_[static_cast<std::size_t>(target.to)].initial = true;
            emit(no_state, drawn, no_state, target);
        }
        return;
    }
    const StateId from = id(drawn.from);
    if (is_choice(from)) return;
    const Targets& targets = resolve(id(drawn.to), drawn.where);
    if (!state(from).composite) {
        for (const Target& target : targets) emit(from, drawn, no_state, target);
        return;
    }
    for (const StateId inner : atomic_states(from)) {
        if (hidden(inner, from, drawn)) continue;
        for (const Target& target : targets) emit(inner, drawn, from, target);
    }
}

void Compiler::emit(StateId from, const DrawnTransition& drawn, StateId drawn_from, const Target& target) {
    if (target.to == no_state) {
        if (ending_.contains(target.in)) states_[static_cast<std::size_t>(from)].terminal = true;
        return;
    }
    Transition transition;
    transition.from = from;
    transition.to = target.to;
    transition.event = drawn.label.event;
    transition.params = drawn.label.params;
    transition.guards = drawn.label.guards;
    transition.guards.insert(transition.guards.end(), target.guards.begin(), target.guards.end());
    transition.effects = drawn.label.effects;
    transition.effects.insert(transition.effects.end(), target.effects.begin(), target.effects.end());
    transition.after = drawn.label.after;
    if (drawn_from != no_state) transition.drawn_from = state(drawn_from).name;
    transition.where = drawn.where;

    std::string key = std::to_string(from) + ' ' + std::to_string(target.to);
    for (const std::string* each : {&transition.event, &transition.after}) (key += '\0') += *each;
    for (const auto* list : {&transition.guards, &transition.effects}) {
        key += '\1';
        for (const std::string& each : *list) (key += '\0') += each;
    }
    std::size_t bytes = sizeof(Transition) + 2 * key.size();
    for (const std::string& each : transition.params) bytes += sizeof(std::string) + each.size();
    spend(1, bytes, drawn.where);
    if (!seen_.insert(std::move(key)).second) return;
    if (transitions_.size() == max_transitions) {
        throw Error("the machine has more than " + std::to_string(max_transitions) + " transitions", drawn.where,
                    "Transitions from composite states and through choices count once for every pair of states.", {},
                    "too_many_arrows");
    }
    transitions_.push_back(std::move(transition));
}

void Compiler::spend(std::size_t steps, std::size_t bytes, Place where) {
    steps_ += steps;
    bytes_ += bytes;
    if (steps_ <= max_steps && bytes_ <= max_bytes) return;
    throw Error("the diagram is too large after its composite states and choices are flattened", where, {}, {},
                "too_many_arrows");
}

}  // namespace

Machine compile(const Diagram& diagram) {
    return Compiler(diagram).run();
}

}  // namespace pawl::core
