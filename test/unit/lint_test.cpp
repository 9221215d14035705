// What the linter reports, and what it accepts.
#include <gtest/gtest.h>

#include "support.hpp"

namespace pawl::test {
namespace {

using core::Finding;
using core::Severity;

// "severity code line" of every finding.
std::vector<std::string> findings(const std::string& body) {
    std::vector<std::string> result;
    for (const Finding& each : core::lint("stateDiagram-v2\n" + body)) {
        const bool warning = each.severity == Severity::warning;
        const char* const severity = each.severity == Severity::error ? "error " : warning ? "warning " : "info ";
        result.push_back(severity + each.code + ' ' + std::to_string(each.where.line));
    }
    return result;
}

using Found = std::vector<std::string>;

TEST(Lint, LeavesAGoodDiagramAlone) {
    EXPECT_EQ(
        findings(
            "[*] --> A\nA --> B : go [x]\nA --> C : go\nB --> [*]\nC --> [*]\nclass A owned\nclass B waiting,mine"),
        Found{});
    EXPECT_EQ(core::lint(diagram_file("door")).size(), 0u);
    EXPECT_EQ(core::lint(diagram_file("nested")).size(), 0u);
}

TEST(Lint, ReportsErrors) {
    EXPECT_EQ(findings("A ->> B"), Found{"error syntax_error 2"});
    EXPECT_EQ(findings("A --> B\nB --> [*]"), Found{"error no_initial_state 2"});
    EXPECT_EQ(findings("[*] --> A\nA --> P\nstate P {\nx --> [*]\n}"), Found{"error no_initial_child 3"});
    EXPECT_EQ(findings("[*] --> A\nA --> f\nstate f <<fork>>\nstate j <<join>>\nstate P {\nx\n--\ny\n}"),
              (Found{"error fork 4", "error join 5", "info no_initial_child 6", "error region 8"}));
    EXPECT_EQ(core::lint("").size(), 1u);
    const auto found = core::lint("stateDiagram-v2\n[*] --> A\nA B");
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].where.column, 3);
}

TEST(Lint, UnreachableAndStuckStates) {
    EXPECT_EQ(findings("[*] --> A\nA --> [*]\nB --> A : x"), Found{"warning unreachable_state 4"});
    EXPECT_EQ(findings("[*] --> A\nA --> B : x\nA --> [*]"), Found{"warning dead_end 3"});
    EXPECT_EQ(findings("[*] --> A\nA --> B : x\nB --> B : y\nA --> [*]"), Found{"warning dead_end 3"});
    EXPECT_EQ(findings("[*] --> A\nA --> B : x\nB --> C : y\nC --> B : z\nA --> [*]"),
              (Found{"info no_way_to_end 3", "info no_way_to_end 4"}));
    EXPECT_EQ(findings("[*] --> A\nA --> B : x\nB --> A : y"), Found{});
}

TEST(Lint, TheSameEventTwice) {
    EXPECT_EQ(findings("[*] --> A\nA --> B : go\nA --> C : go\nB --> [*]\nC --> [*]"),
              Found{"warning duplicate_event 4"});
    EXPECT_EQ(findings("[*] --> A\nA --> B : go [x]\nA --> C : go [y]\nB --> [*]\nC --> [*]"), Found{});
    EXPECT_EQ(findings("[*] --> A\nA --> B\nA --> C\nB --> [*]\nC --> [*]"), Found{});
    EXPECT_EQ(
        findings("[*] --> P\nstate P {\n[*] --> x\nx --> y : n\n}\nP --> B : go\nP --> C : go\nB --> [*]\nC --> [*]"),
        Found{"warning duplicate_event 8"});
}

TEST(Lint, AnEventThatRetries) {
    const std::string retry = "[*] --> R\nR --> W : fail\nR --> D : fail\nW --> R : start\nD --> [*]\n";
    EXPECT_EQ(findings(retry + "class R owned"), Found{"info retry_event 4"});
    EXPECT_EQ(findings(retry), Found{"warning duplicate_event 4"});
    EXPECT_EQ(findings(retry + "R --> X : fail\nX --> [*]\nclass R owned"),
              (Found{"info retry_event 4", "warning duplicate_event 7"}));
    EXPECT_EQ(findings(retry + "class W owned"), Found{"warning duplicate_event 4"});
    EXPECT_EQ(findings("[*] --> R\nR --> W : fail\nR --> V : fail\nW --> [*]\nV --> [*]\nclass R owned"),
              Found{"warning duplicate_event 4"});
}

TEST(Lint, SeveralTimersOfAState) {
    EXPECT_EQ(findings("[*] --> A\nA --> A : nag after 1 hour\nA --> B : expire after 3 days\nB --> [*]"),
              Found{"warning several_timers 4"});
    EXPECT_EQ(findings("[*] --> A\nA --> C : after 1 hour\nA --> B : [x] after 1 hour\nB --> [*]\nC --> [*]"), Found{});
    EXPECT_EQ(findings("[*] --> A\nA --> B : after 1 hour\nB --> C : after 2 hours\nC --> [*]"), Found{});
    EXPECT_EQ(
        findings("[*] --> P\nstate P {\n[*] --> x\nx --> y : n after 1 h\n}\nP --> B : late after 2 h\nB --> [*]"),
        Found{"warning several_timers 7"});
}

TEST(Lint, NamesThatDifferOnlyInCase) {
    EXPECT_EQ(findings("[*] --> Done\nDone --> done : x\ndone --> [*]"), Found{"warning name_case 3"});
    EXPECT_EQ(findings("[*] --> A\nA --> B : Go\nB --> A : go\nB --> A : go\nA --> [*]"), Found{"warning name_case 4"});
}

TEST(Lint, TagsThatAreAlmostKnown) {
    for (const std::string tag : {"Owned", "owend", "ownd", "eror", "errors", "waitng", "wating"}) {
        EXPECT_EQ(findings("[*] --> A:::" + tag + "\nA --> [*]"), Found{"warning unknown_tag 2"}) << tag;
    }
    for (const std::string tag : {"owned", "error", "waiting", "mine", "red", "x"}) {
        EXPECT_EQ(findings("[*] --> A:::" + tag + "\nA --> [*]"), Found{}) << tag;
    }
}

TEST(Lint, LabelsWithoutEffect) {
    EXPECT_EQ(findings("[*] --> A\nA --> [*] : finish"), Found{"warning label_without_effect 3"});
    EXPECT_EQ(findings("[*] --> P : new\nstate P {\n[*] --> a : enter\na --> [*]\n}"),
              Found{"info label_without_effect 4"});
    EXPECT_EQ(findings("[*] --> A\nA --> B : after 3 failures\nB --> [*]"), Found{"warning not_an_interval 3"});
}

TEST(Lint, CompositesAndChoices) {
    EXPECT_EQ(findings("[*] --> a\nstate P {\na --> [*]\n}"), Found{"info no_initial_child 3"});
    EXPECT_EQ(findings("[*] --> A\nA --> [*]\nstate c <<choice>>\nc --> A"), Found{"warning unused_choice 4"});
    EXPECT_EQ(findings("[*] --> A\nA --> c\nstate c <<choice>>"), Found{"error empty_choice 3"});
}

TEST(Lint, ThingsThatMermaidSeesDifferently) {
    EXPECT_EQ(findings("[*] --> A\nA --> [*]\nstate B"), Found{"warning not_a_state 4"});
    EXPECT_EQ(findings("[*] --> A\nA --> [*]\nclass B x"), Found{"warning unknown_state 4"});
    EXPECT_EQ(findings("[*] --> \"a b\"\n\"a b\" --> [*]"), Found{"info not_mermaid 2"});
    EXPECT_EQ(findings("[*] --> A\nA --> [H] : x\n[H] --> [*]"), Found{"warning history 3"});
    EXPECT_EQ(findings("[*] --> P\nstate P {\n[*] --> a\na --> [*]\n}\nstate Q {\n[*] --> a\n}\n"),
              Found{"warning two_parents 8"});
}

}  // namespace
}  // namespace pawl::test
