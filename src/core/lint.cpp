// Pure C++; throws only bad_alloc. Findings about diagrams: see lint in machine.hpp.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "concurrency.hpp"
#include "machine.hpp"
#include "scanner.hpp"

namespace pawl::core {
namespace {

constexpr std::string_view kernel_tags[] = {"owned", "error", "waiting"};

// Edit distance with exchanged neighbours as one edit, of short words only.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) {
        for (std::size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            cost[i][j] =
                std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
            }
        }
    }
    return cost[a.size()][b.size()];
}

class Linter {
public:
    std::vector<Finding> run(std::string_view text);

private:
    void add(Severity severity, std::string code, Place where, std::string message) {
        findings_.push_back({severity, std::move(code), where, std::move(message)});
    }
    void add(const Error& error);
    void check_diagram(const Diagram& diagram);
    void check_names(const Diagram& diagram);
    void check_tags(const Diagram& diagram);
    void check_transitions(const Diagram& diagram);
    void check_composites(const Diagram& diagram);
    void check_machine(const Machine& machine, const Diagram& diagram);
    void check_paths(const Machine& machine, const Diagram& diagram);
    void check_events(const Machine& machine);
    void check_timers(const Machine& machine);

    std::vector<Finding> findings_;
};

std::vector<Finding> Linter::run(std::string_view text) {
    try {
        const Diagram diagram = read_mermaid(text);
        check_diagram(diagram);
        const std::vector<Error> concurrency = find_concurrency(diagram, 1000);
        for (const Error& each : concurrency) add(each);
        if (concurrency.empty()) check_machine(compile(diagram), diagram);
    } catch (const Error& error) {
        add(error);
    }
    std::stable_sort(findings_.begin(), findings_.end(), [](const Finding& a, const Finding& b) {
        return a.where.line != b.where.line ? a.where.line < b.where.line : a.where.column < b.where.column;
    });
    return std::move(findings_);
}

void Linter::add(const Error& error) {
    std::string message = error.what();
    if (!error.hint.empty()) message += " (" + error.hint + ")";
    add(Severity::error, error.code, error.where, std::move(message));
}

void Linter::check_diagram(const Diagram& diagram) {
    for (const DiagramWarning& warning : diagram.warnings)
        add(Severity::warning, warning.code, warning.where, warning.message);
    check_names(diagram);
    check_tags(diagram);
    check_transitions(diagram);
    check_composites(diagram);
}

void Linter::check_names(const Diagram& diagram) {
    std::unordered_map<std::string, std::string> seen;
    for (const DrawnState& state : diagram.states) {
        const auto [entry, is_new] = seen.try_emplace(lower(state.id), state.id);
        if (!is_new) {
            add(Severity::warning, "name_case", state.where,
                "states " + quote(entry->second) + " and " + quote(state.id) + " differ only in upper and lower case");
        }
        if (state.id == "[H]" || state.id == "[H*]") {
            add(Severity::warning, "history", state.where,
                quote(state.id) + " is read as an ordinary state, not as a history state");
        }
        if (state.id.find_first_of(" -") != std::string::npos) {
            add(Severity::info, "not_mermaid", state.where,
                "Mermaid itself does not draw the state name " + quote(state.id) + " (blanks and hyphens)");
        }
    }
    std::unordered_map<std::string, std::string> events;
    std::unordered_set<std::string> told;
    for (const DrawnTransition& transition : diagram.transitions) {
        if (transition.label.event.empty()) continue;
        const auto [entry, is_new] = events.try_emplace(lower(transition.label.event), transition.label.event);
        if (!is_new && entry->second != transition.label.event && told.insert(transition.label.event).second) {
            add(Severity::warning, "name_case", transition.where,
                "events " + quote(entry->second) + " and " + quote(transition.label.event) +
                    " differ only in upper and lower case");
        }
    }
}

void Linter::check_tags(const Diagram& diagram) {
    std::unordered_set<std::string_view> told;
    for (const DrawnState& state : diagram.states) {
        for (const std::string& tag : state.tags) {
            if (tag.size() > 12 || !told.insert(tag).second) continue;
            for (const std::string_view known : kernel_tags) {
                if (tag == known || distance(lower(tag), known) > 2) continue;
                if (std::find(std::begin(kernel_tags), std::end(kernel_tags), tag) != std::end(kernel_tags)) continue;
                add(Severity::warning, "unknown_tag", state.where,
                    "tag " + quote(tag) + " is not used by the kernel; did you mean " + quote(known) + "?");
            }
        }
    }
}

void Linter::check_transitions(const Diagram& diagram) {
    for (const DrawnTransition& transition : diagram.transitions) {
        if (transition.to == "[*]" && !transition.text.empty()) {
            add(Severity::warning, "label_without_effect", transition.where,
                "the label " + quote(transition.text) + " has no effect: a transition to [*] marks " +
                    quote(transition.from) + " as terminal and changes no row");
        } else if (transition.from == "[*]" && !transition.in.empty() && !transition.label.event.empty()) {
            add(Severity::info, "label_without_effect", transition.where,
                "the event " + quote(transition.label.event) + " has no effect: " + quote(transition.in) +
                    " is entered by the transitions that lead to it");
        } else if (transition.label.event.find("after ") == 0) {
            add(Severity::warning, "not_an_interval", transition.where,
                quote(transition.label.event) +
                    " is read as the name of an event, because no interval follows the word after");
        }
    }
}

void Linter::check_composites(const Diagram& diagram) {
    std::unordered_set<std::string_view> entered;
    std::unordered_set<std::string_view> targets;
    for (const DrawnTransition& transition : diagram.transitions) {
        if (transition.from == "[*]") entered.insert(transition.in);
        targets.insert(transition.to);
    }
    for (const DrawnState& state : diagram.states) {
        // If a transition leads to it, the compiler reports the error.
        if (state.composite && !entered.contains(state.id) && !targets.contains(state.id)) {
            add(Severity::info, "no_initial_child", state.where,
                "composite state " + quote(state.id) + " has no initial child, so no transition can enter it");
        }
        if (state.kind == StateKind::choice && !targets.contains(state.id)) {
            add(Severity::warning, "unused_choice", state.where,
                "no transition leads to the choice " + quote(state.id));
        }
    }
}

bool is_atomic(const State& state) {
    return !state.composite && state.kind == StateKind::state;
}

void Linter::check_machine(const Machine& machine, const Diagram& diagram) {
    check_paths(machine, diagram);
    check_events(machine);
    check_timers(machine);
}

// States that are reached from `from` along transitions, forwards or backwards.
std::vector<bool> reach(const Machine& machine, std::vector<StateId> from, bool backwards) {
    std::vector<std::vector<StateId>> next(machine.states().size());
    for (const Transition& transition : machine.transitions()) {
        if (transition.from == no_state) continue;
        next[static_cast<std::size_t>(backwards ? transition.to : transition.from)].push_back(
            backwards ? transition.from : transition.to);
    }
    std::vector<bool> reached(machine.states().size());
    while (!from.empty()) {
        const auto at = static_cast<std::size_t>(from.back());
        from.pop_back();
        if (reached[at]) continue;
        reached[at] = true;
        from.insert(from.end(), next[at].begin(), next[at].end());
    }
    return reached;
}

void Linter::check_paths(const Machine& machine, const Diagram& diagram) {
    std::vector<StateId> initial;
    std::vector<StateId> terminal;
    for (std::size_t i = 0; i < machine.states().size(); ++i) {
        if (machine.states()[i].initial) initial.push_back(static_cast<StateId>(i));
        if (machine.states()[i].terminal) terminal.push_back(static_cast<StateId>(i));
    }
    const std::vector<bool> reachable = reach(machine, initial, false);
    const std::vector<bool> ends = reach(machine, terminal, true);
    for (std::size_t i = 0; i < machine.states().size(); ++i) {
        const State& state = machine.states()[i];
        if (!is_atomic(state)) continue;
        const Place where = diagram.states[i].where;
        if (!reachable[i]) {
            add(Severity::warning, "unreachable_state", where,
                "state " + quote(state.name) + " cannot be reached from an initial state");
        }
        if (state.terminal) continue;
        const auto out = machine.leaving(static_cast<StateId>(i));
        const bool stuck = std::all_of(out.begin(), out.end(), [&](std::int32_t transition) {
            return machine.transitions()[static_cast<std::size_t>(transition)].to == static_cast<StateId>(i);
        });
        if (stuck) {
            add(Severity::warning, "dead_end", where,
                "state " + quote(state.name) + " has no outgoing transition and is not terminal");
        } else if (!terminal.empty() && !ends[i]) {
            add(Severity::info, "no_way_to_end", where,
                "no terminal state can be reached from state " + quote(state.name));
        }
    }
}

// Whether an owner's event with these two targets may be a retry event, where the number of attempts chooses between
// them.
bool may_retry(const Machine& machine, StateId from, StateId one, StateId other) {
    if (from == no_state) return false;
    const auto& tags = machine.states()[static_cast<std::size_t>(from)].tags;
    return std::find(tags.begin(), tags.end(), "owned") != tags.end() &&
           machine.states()[static_cast<std::size_t>(one)].terminal !=
               machine.states()[static_cast<std::size_t>(other)].terminal;
}

std::string source_of(const Machine& machine, const Transition& transition) {
    if (!transition.drawn_from.empty()) return transition.drawn_from;
    return transition.from == no_state ? "[*]" : machine.states()[static_cast<std::size_t>(transition.from)].name;
}

// Two transitions for one event, both without a guard: which of them is meant?
void Linter::check_events(const Machine& machine) {
    std::unordered_set<std::string> told;
    for (StateId from = no_state; from < static_cast<StateId>(machine.states().size()); ++from) {
        std::unordered_map<std::string_view, std::vector<StateId>> unguarded;
        for (const std::int32_t i : machine.leaving(from)) {
            const Transition& transition = machine.transitions()[static_cast<std::size_t>(i)];
            if (transition.event.empty() || !transition.guards.empty()) continue;
            std::vector<StateId>& targets = unguarded[transition.event];
            if (std::find(targets.begin(), targets.end(), transition.to) != targets.end()) continue;
            targets.push_back(transition.to);
            if (targets.size() < 2) continue;
            const std::string source = source_of(machine, transition);
            const bool retry = targets.size() == 2 && may_retry(machine, from, targets[0], targets[1]);
            if (!told.insert(source + '\0' + transition.event + (retry ? "?" : "")).second) continue;
            const std::string leads = "event " + quote(transition.event) + " leads from " + quote(source) + " to " +
                                      quote(machine.states()[static_cast<std::size_t>(targets.front())].name) +
                                      " and to " +
                                      quote(machine.states()[static_cast<std::size_t>(transition.to)].name);
            if (retry)
                add(Severity::info, "retry_event", transition.where,
                    leads + ": attempts decide if retry of pawl.set_claiming names the event");
            else
                add(Severity::warning, "duplicate_event", transition.where,
                    leads + ", and no guard distinguishes them");
        }
    }
}

// A row has one due time: that of the shortest timer of its state.
void Linter::check_timers(const Machine& machine) {
    std::unordered_set<std::string> told;
    for (StateId from = 0; from < static_cast<StateId>(machine.states().size()); ++from) {
        std::string times;
        const Transition* later = nullptr;
        std::unordered_set<std::string_view> seen;
        for (const std::int32_t i : machine.leaving(from)) {
            const Transition& transition = machine.transitions()[static_cast<std::size_t>(i)];
            if (transition.after.empty() || !seen.insert(transition.after).second) continue;
            if (!times.empty()) later = &transition;
            times += (times.empty() ? "" : ", ") + quote(transition.after);
        }
        if (later == nullptr || !told.insert(source_of(machine, *later) + times).second) continue;
        add(Severity::warning, "several_timers", later->where,
            "state " + quote(machine.states()[static_cast<std::size_t>(from)].name) + " has several timers (" + times +
                "): only the shortest is set, and it is set again if it changes nothing");
    }
}

}  // namespace

std::vector<Finding> lint(std::string_view text) {
    return Linter().run(text);
}

}  // namespace pawl::core
