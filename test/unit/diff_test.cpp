// What changes from one machine to another: rows, renames, and the diagram of both.
#include <gtest/gtest.h>

#include <set>

#include "core/diff.hpp"
#include "same.hpp"
#include "support.hpp"

namespace pawl::test {
namespace {

core::Machine machine_of(const std::string& body) {
    return core::compile(core::read_mermaid("stateDiagram-v2\n" + body));
}

// One line a change.
std::vector<std::string> changes(const std::string& before, const std::string& after) {
    std::vector<std::string> lines;
    for (const core::Change& each : core::diff(machine_of(before), machine_of(after))) {
        std::string line = std::string(core::name_of(each.kind)) + " ";
        line += each.is_state() ? each.state : each.from + " -" + each.event + "-> " + each.to;
        lines.push_back(line + (each.detail.empty() ? "" : " (" + each.detail + ")"));
    }
    return lines;
}

using Lines = std::vector<std::string>;

TEST(Diff, OfEqualMachinesIsEmpty) {
    const std::string body = "[*] --> a\na --> b : go [p] / f\nb --> [*]\nclass b owned\n";
    EXPECT_EQ(changes(body, body), Lines{});
    EXPECT_EQ(changes(body, "direction LR\n" + body), Lines{}) << "how it is drawn is no change";
}

TEST(Diff, StatesThatComeGoAndChange) {
    EXPECT_EQ(changes("[*] --> a\na --> b : go\nb --> [*]\n", "[*] --> a\na --> c : go\nc --> [*]\nclass a owned\n"),
              (Lines{"removed b (terminal)", "changed a (tags: none -> owned)", "added c (terminal)",
                     "removed a -go-> b", "added a -go-> c"}));
    EXPECT_EQ(changes("[*] --> a\na --> b\n", "[*] --> a\n[*] --> b\na --> b\nb --> [*]\n"),
              (Lines{"changed b (now initial; now terminal)"}));
    EXPECT_EQ(changes("[*] --> a\na --> b\nb --> [*]\n", "[*] --> a\na --> b\nb --> a\n"),
              (Lines{"changed b (no longer terminal)", "added b --> a"}));
}

TEST(Diff, TransitionsAreKnownByTheirStatesAndEvent) {
    EXPECT_EQ(changes("[*] --> a\na --> b : go\n", "[*] --> a\na --> b : go [p]\n"),
              (Lines{"changed a -go-> b (no condition -> [p])"}));
    EXPECT_EQ(
        changes("[*] --> a\na --> b : go [p]\na --> b : go [q]\n", "[*] --> a\na --> b : go [q]\na --> b : go [r]\n"),
        (Lines{"changed a -go-> b ([p] -> [r])"}))
        << "equal labels are paired first";
    EXPECT_EQ(changes("[*] --> a\na --> b : go\n", "[*] --> a\na --> b : leave\n"),
              (Lines{"removed a -go-> b", "added a -leave-> b"}));
    EXPECT_EQ(changes("[*] --> a\na --> b : go after 1 day\n", "[*] --> a\na --> b : go after 2 days\n"),
              (Lines{"changed a -go-> b (after 1 day -> after 2 days)"}));
}

TEST(Diff, CompositesAreResolved) {
    const std::string apart = "[*] --> a\na --> b\na --> x : cancel\nb --> x : cancel\n";
    const std::string inside = "[*] --> P\nstate P {\n[*] --> a\na --> b\n}\nP --> x : cancel\n";
    for (const std::string& line : changes(apart, inside)) EXPECT_EQ(line.find("cancel"), std::string::npos) << line;
    EXPECT_EQ(changes(apart, inside).front(), "changed a (moved into P)");
}

TEST(Diff, RenamesAreGuessedByTheSurroundings) {
    using Pairs = std::vector<std::pair<std::string, std::string>>;
    const auto renames = [](const std::string& before, const std::string& after) {
        return core::likely_renames(machine_of(before), machine_of(after));
    };
    EXPECT_EQ(renames("[*] --> cart\ncart --> paid : pay\npaid --> [*]\n",
                      "[*] --> cart\ncart --> billed : pay\nbilled --> [*]\n"),
              (Pairs{{"paid", "billed"}}));
    EXPECT_EQ(renames("[*] --> a\na --> b : go\n", "[*] --> a\na --> c : go\na --> d : go\n"), Pairs{})
        << "two states could be it";
    EXPECT_EQ(renames("[*] --> a\na --> b : go\na --> c : stop\n", "[*] --> a\na --> d : leave\n"), Pairs{});
}

core::Diagram both(const std::string& before, const std::string& after) {
    return core::diff_diagram(core::read_mermaid("stateDiagram-v2\n" + before),
                              core::read_mermaid("stateDiagram-v2\n" + after));
}

TEST(Diff, TheDiagramHasBothAndColours) {
    const std::string text =
        core::write_mermaid(both("[*] --> a\na --> b : go\nb --> [*]\nclassDef owned fill:#f00\nclass a owned\n",
                                 "[*] --> a\na --> c : go [p]\nc --> [*]\nclass a owned\n"));
    EXPECT_EQ(text,
              "stateDiagram-v2\n    [*] --> a\n    a --> c : + go [p]\n    c --> [*] : +\n    a --> b : - go\n"
              "    b --> [*] : -\n"
              "    classDef diff_added fill:#dafbe1,stroke:#1a7f37,color:#116329\n"
              "    classDef diff_removed fill:#ffebe9,stroke:#cf222e,color:#82071e,stroke-dasharray:5 5\n"
              "    class c diff_added\n    class b diff_removed\n");
}

// Random machines: pieces of random diagrams, each before and after another.
TEST(Diff, TheDiagramCanBeReadAgain) {
    const std::vector<std::string> bodies = {
        "[*] --> a\na --> b : go\nb --> [*]\n",
        "[*] --> P\nstate P {\n[*] --> a\na --> b : go\n}\nP --> x : cancel\nx --> [*]\n",
        "[*] --> a\nstate Q {\n[*] --> b\nstate P {\n[*] --> c\nc --> d : go\n}\nb --> P\n}\na --> Q : turn(x) [p] / "
        "f\n",
        "[*] --> c\nstate c {\n[*] --> P\nP --> a : go\n}\nc --> b\nb --> [*]\n",
        "state k <<choice>>\n[*] --> a\na --> k : go\nk --> b : [p]\nk --> \"two words\" : [q]\nb --> [*]\n",
        "[*] --> state\nstate --> note : class\nnote --> [*] : a / b\nstate : text\n",
        "[*] --> b\nstate b {\n[*] --> c\nstate c {\n[*] --> d\nd --> a\n}\n}\nd --> x\nx : some text\n"};
    for (const std::string& before : bodies)
        for (const std::string& after : bodies) {
            const std::string text = core::write_mermaid(both(before, after));
            core::Diagram again;
            ASSERT_NO_THROW(again = core::read_mermaid(text)) << text;
            EXPECT_EQ(core::write_mermaid(again), text);
            std::set<std::string> names;
            for (const std::string& body : {before, after})
                for (const core::DrawnState& state : core::read_mermaid("stateDiagram-v2\n" + body).states)
                    names.insert(state.id);
            EXPECT_EQ(again.states.size(), names.size()) << text;
            for (const core::Change& change : core::diff(machine_of(before), machine_of(after))) {
                for (const core::DrawnState& state : again.states) {
                    if (change.state != state.id) continue;
                    EXPECT_EQ(state.tags, Lines{"diff_" + std::string(core::name_of(change.kind))}) << text;
                }
            }
        }
}

}  // namespace
}  // namespace pawl::test
