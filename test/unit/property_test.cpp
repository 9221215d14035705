// Random diagrams: printing and reading changes nothing, and the compiler agrees with a slow reading of its own rules.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>

#include "same.hpp"
#include "support.hpp"

namespace pawl::test {
namespace {

using core::Diagram;
using core::DrawnState;
using core::DrawnTransition;
using core::StateKind;

// Writes diagrams that use every construct, in no sensible way.
class Scribbler {
public:
    Scribbler(unsigned seed, bool concurrent) : random_(seed), concurrent_(concurrent) {}

    std::string diagram() {
        std::string text;
        if (one_in(6)) text += "---\ntitle: a \"" + pick({"x", "y: z", "\\"}) + "\n---\n";
        text += "stateDiagram-v2\n";
        const int choices = number(3);
        for (int i = 0; i < choices; ++i) text += "state c" + std::to_string(i) + " <<choice>>\n";
        text += "[*] --> " + name() + label() + "\n";
        block(text, 0);
        return text;
    }

private:
    int number(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
    bool one_in(int times) { return number(times) == 0; }
    std::string pick(std::vector<std::string> from) {
        return from[static_cast<std::size_t>(number(static_cast<int>(from.size())))];
    }
    std::string name() {
        if (one_in(7)) return pick({"c0", "c1", "c2"});
        return pick({"a", "b", "d", "e", "f", "g", "h", "i", "\"two words\"", "x-y", "P", "Q", "R", "S"});
    }
    std::string label() {
        std::string text = pick({"", "", "go", "go", "stop", "turn(x)", "free text here"});
        if (one_in(4)) text += " [" + pick({"p", "q", "p, q"}) + "]";
        if (one_in(9)) text += " after 5 min";
        if (one_in(6)) text += " / " + pick({"f", "f, k"});
        return text.empty() ? "" : " : " + text;
    }

    void block(std::string& text, int depth) {
        const int statements = 2 + number(7);
        for (int i = 0; i < statements; ++i) {
            switch (number(12)) {
                case 0:
                    text += name() + "\n";
                    break;
                case 1:
                    text += name() + " : " + pick({"some text", "more", "a %% b", ": x"}) + "\n";
                    break;
                case 2:
                    text += name() + ":::" + pick({"owned", "red", "x"}) + "\n";
                    break;
                case 3:
                    text += "class " + name() + "," + name() + " " + pick({"owned", "red", "late"}) + "\n";
                    break;
                case 4:
                    text += (one_in(3) ? name() : "[*]") + " --> " + name() + label() + "\n";
                    break;
                case 5:
                    text += name() + " --> [*]" + (one_in(4) ? label() : "") + "\n";
                    break;
                case 6:
                case 7:
                    if (depth < 3) {
                        text += "state " + pick({"P", "Q", "R", "S"}) + " {\n";
                        if (one_in(4)) text += "direction LR\n";
                        if (!one_in(4)) text += "[*] --> " + name() + (one_in(3) ? label() : "") + "\n";
                        block(text, depth + 1);
                        text += "}\n";
                    }
                    break;
                case 8:
                    if (concurrent_ && depth > 0 && one_in(2)) text += "--\n";
                    if (concurrent_ && one_in(3)) text += "state j <<join>>\n" + name() + " --> j\n";
                    break;
                default:
                    text += name() + " --> " + name() + label() + "\n";
                    break;
            }
        }
    }

    std::mt19937 random_;
    bool concurrent_;
};

// The rules of machine.hpp, in the simplest form: no tables, no sharing, straight from the diagram.
class Oracle {
public:
    explicit Oracle(const Diagram& diagram) : diagram_(diagram) {
        for (const DrawnState& each : diagram.states) states_[each.id] = &each;
        for (const DrawnTransition& drawn : diagram.transitions) expand(drawn);
        bool initial = false;
        for (const auto& [text, from] : transitions) initial = initial || from == "[*]";
        if (!initial) throw std::logic_error("no initial state");
    }

    std::vector<std::pair<std::string, std::string>> transitions;  // as text, and where from
    std::set<std::string> terminals;

private:
    struct End {
        std::string to;
        std::string in;
        std::vector<std::string> guards;
        std::vector<std::string> effects;
    };

    bool is_choice(const std::string& id) const { return states_.at(id)->kind == StateKind::choice; }
    bool is_atomic(const std::string& id) const { return !states_.at(id)->composite && !is_choice(id); }
    bool inside(std::string id, const std::string& outer) const {
        for (; !id.empty(); id = states_.at(id)->parent) {
            if (id == outer) return true;
        }
        return false;
    }

    std::vector<End> ends(const DrawnTransition& transition, std::set<std::string> path = {}) const {
        if (!path.insert(transition.to).second) throw std::logic_error("cycle");
        if (transition.to == "[*]") return {{"[*]", transition.in, {}, {}}};
        if (is_atomic(transition.to)) return {{transition.to, "", {}, {}}};
        std::vector<End> result;
        for (const DrawnTransition& next : diagram_.transitions) {
            const bool branch = is_choice(transition.to) && next.from == transition.to;
            const bool entry = !is_choice(transition.to) && next.from == "[*]" && next.in == transition.to;
            if (!branch && !entry) continue;
            if (entry && next.to == "[*]") throw std::logic_error("[*] to [*]");
            for (End& end : ends(next, path)) {
                End joined{end.to, end.in, next.label.guards, next.label.effects};
                if (branch && !next.label.event.empty()) {
                    std::string condition = next.label.event;
                    if (!next.label.params.empty()) condition += "(" + joined_by_comma(next.label.params) + ")";
                    joined.guards.insert(joined.guards.begin(), condition);
                }
                joined.guards.insert(joined.guards.end(), end.guards.begin(), end.guards.end());
                joined.effects.insert(joined.effects.end(), end.effects.begin(), end.effects.end());
                result.push_back(std::move(joined));
            }
        }
        if (result.empty()) throw std::logic_error("leads nowhere");
        return result;
    }

    static std::string joined_by_comma(const std::vector<std::string>& parts) {
        std::string result;
        for (const std::string& part : parts) result += (result.empty() ? "" : ", ") + part;
        return result;
    }

    bool has_own_transition(const std::string& from, const std::string& event) const {
        for (const DrawnTransition& each : diagram_.transitions) {
            if (each.from == from && each.to != "[*]" && each.label.event == event) return true;
        }
        return false;
    }

    // May the drawn transition be taken from this atomic state?
    bool leaves(const DrawnTransition& drawn, const std::string& state) const {
        if (!inside(state, drawn.from)) return false;
        if (drawn.label.event.empty()) return true;
        for (std::string at = state; at != drawn.from; at = states_.at(at)->parent) {
            if (has_own_transition(at, drawn.label.event)) return false;
        }
        return true;
    }

    // Does a transition to [*] drawn in this composite end the row's life?
    bool ends_life(const std::string& composite, std::set<std::string> path = {}) const {
        if (composite.empty()) return true;
        if (!path.insert(composite).second) return false;
        bool left = false;
        for (std::string at = composite; !at.empty(); at = states_.at(at)->parent) {
            for (const DrawnTransition& each : diagram_.transitions)
                left = left || (each.from == at && each.to != "[*]");
        }
        if (!left) return true;
        for (const DrawnTransition& each : diagram_.transitions) {
            if (each.from == composite && each.to == "[*]" && ends_life(each.in, path)) return true;
        }
        return false;
    }

    void expand(const DrawnTransition& drawn) {
        if (drawn.from == "[*]" && drawn.to == "[*]") throw std::logic_error("[*] to [*]");
        if (drawn.from == "[*]") {
            if (!drawn.in.empty()) return;
            for (const End& end : ends(drawn)) {
                if (end.to != "[*]") add("[*]", drawn, end);
            }
            return;
        }
        if (is_choice(drawn.from)) return;
        const std::vector<End> targets = ends(drawn);
        for (const DrawnState& state : diagram_.states) {
            if (!is_atomic(state.id) || !inside(state.id, drawn.from)) continue;
            if (drawn.to == "[*]") {
                if (ends_life(drawn.in)) terminals.insert(state.id);
            } else if (leaves(drawn, state.id)) {
                for (const End& end : targets) add(state.id, drawn, end);
            }
        }
    }

    void add(const std::string& from, const DrawnTransition& drawn, const End& end) {
        if (end.to == "[*]") {
            if (ends_life(end.in)) terminals.insert(from);
            return;
        }
        std::vector<std::string> guards = drawn.label.guards;
        guards.insert(guards.end(), end.guards.begin(), end.guards.end());
        std::vector<std::string> effects = drawn.label.effects;
        effects.insert(effects.end(), end.effects.begin(), end.effects.end());
        const std::string key = from + " -" + drawn.label.event + "[" + joined(guards) + "]{" + drawn.label.after +
                                "}/" + joined(effects) + "-> " + end.to;
        if (seen_.insert(key).second) transitions.emplace_back(key, from);
    }

    const Diagram& diagram_;
    std::map<std::string, const DrawnState*> states_;
    std::set<std::string> seen_;
};

std::string full_text(const core::Machine& machine, const core::Transition& transition) {
    return name_of(machine, transition.from) + " -" + transition.event + "[" + joined(transition.guards) + "]{" +
           transition.after + "}/" + joined(transition.effects) + "-> " + name_of(machine, transition.to);
}

TEST(Property, PrintingAndReadingChangesNothing) {
    for (unsigned seed = 0; seed < 6000; ++seed) {
        const std::string text = Scribbler(seed, true).diagram();
        std::optional<Diagram> diagram;
        try {
            diagram = core::read_mermaid(text);
        } catch (const core::Error&) {
            continue;  // a composite inside itself, or a choice with something in it
        }
        const std::string print = core::write_mermaid(*diagram);
        Diagram again;
        ASSERT_NO_THROW(again = core::read_mermaid(print)) << "seed " << seed << "\n" << text << "\n" << print;
        ASSERT_EQ(difference(*diagram, again), "") << "seed " << seed << "\n" << text << "\n" << print;
        ASSERT_EQ(core::write_mermaid(again), print) << "seed " << seed;
    }
}

TEST(Property, TheCompilerAgreesWithTheOracle) {
    int compiled = 0;
    int rejected = 0;
    for (unsigned seed = 0; seed < 6000; ++seed) {
        const std::string text = Scribbler(seed, false).diagram();
        std::optional<Diagram> diagram;
        try {
            diagram = core::read_mermaid(text);
        } catch (const core::Error&) {
            continue;
        }
        std::optional<Oracle> oracle;
        try {
            oracle.emplace(*diagram);
        } catch (const std::logic_error&) {
            ASSERT_THROW(core::compile(*diagram), core::Error) << "seed " << seed << "\n" << text;
            ++rejected;
            continue;
        }
        core::Machine machine;
        ASSERT_NO_THROW(machine = core::compile(*diagram)) << "seed " << seed << "\n" << text;
        ++compiled;
        std::vector<std::string> wanted;
        for (const auto& [transition, from] : oracle->transitions) wanted.push_back(transition);
        std::vector<std::string> found;
        for (const core::Transition& transition : machine.transitions())
            found.push_back(full_text(machine, transition));
        ASSERT_EQ(found, wanted) << "seed " << seed << "\n" << text;
        ASSERT_EQ(terminals(machine), oracle->terminals) << "seed " << seed << "\n" << text;
    }
    EXPECT_GT(compiled, 500);
    EXPECT_GT(rejected, 500);
}

// Every state, every event: what may happen, asked of the look-ups, and of the oracle's list.
TEST(Property, EveryStateAndEventAgrees) {
    for (unsigned seed = 0; seed < 1500; ++seed) {
        std::optional<Diagram> diagram;
        std::optional<Oracle> oracle;
        try {
            diagram = core::read_mermaid(Scribbler(seed, false).diagram());
            oracle.emplace(*diagram);
        } catch (const std::exception&) {
            continue;
        }
        const core::Machine machine = core::compile(*diagram);
        for (core::StateId from = core::no_state; from < static_cast<core::StateId>(machine.states().size()); ++from) {
            for (const std::string event : {"go", "stop", "turn", "free text here", "", "never"}) {
                std::vector<std::string> found;
                for (const auto i : machine.leaving(from)) {
                    const core::Transition& transition = machine.transitions()[static_cast<std::size_t>(i)];
                    if (transition.event == event) found.push_back(full_text(machine, transition));
                }
                std::vector<std::string> wanted;
                const std::string start = name_of(machine, from) + " -" + event + "[";
                for (const auto& [transition, source] : oracle->transitions) {
                    if (transition.starts_with(start)) wanted.push_back(transition);
                }
                ASSERT_EQ(found, wanted) << "seed " << seed << ", state " << name_of(machine, from) << ", event "
                                         << event;
            }
            for (core::StateId to = 0; to < static_cast<core::StateId>(machine.states().size()); ++to) {
                std::size_t count = 0;
                for (const auto i : machine.leaving(from))
                    count += machine.transitions()[static_cast<std::size_t>(i)].to == to ? 1u : 0u;
                ASSERT_EQ(machine.between(from, to).size(), count);
            }
        }
    }
}

}  // namespace
}  // namespace pawl::test
