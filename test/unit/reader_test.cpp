// What the reader makes of every construct of the language.
#include <gtest/gtest.h>

#include "support.hpp"

namespace pawl::test {
namespace {

using core::Diagram;
using core::read_mermaid;
using core::StateKind;
using Strings = std::vector<std::string>;

Strings ids(const Diagram& diagram) {
    Strings result;
    for (const auto& each : diagram.states) result.push_back(each.id);
    return result;
}

TEST(Reader, ReadsFrontMatterDirectivesAndSettings) {
    const Diagram gate = read_mermaid(diagram_file("door"));
    EXPECT_EQ(gate.title, "Door: three ways");
    EXPECT_EQ(gate.direction, "LR");
    EXPECT_EQ(ids(gate), (Strings{"Closed", "Open", "Locked"}));
    EXPECT_EQ(gate.transitions.size(), 6u);
    EXPECT_EQ(gate.transitions[0].text, "");
    EXPECT_TRUE(gate.warnings.empty());
}

TEST(Reader, JoinsDescriptionsAndTags) {
    const Diagram gate = read_mermaid(diagram_file("door"));
    EXPECT_EQ(state(gate, "Open").description, "people can walk through\nand some will");
    EXPECT_EQ(state(gate, "Locked").description, "with two bolts");
    EXPECT_EQ(state(gate, "Locked").tags, Strings{"secure"});
    EXPECT_EQ(state(gate, "Open").tags, Strings{"calm"});
    ASSERT_EQ(gate.class_defs.size(), 2u);
    EXPECT_EQ(gate.class_defs[0].first, "secure");
    EXPECT_EQ(gate.class_defs[0].second, "fill:#fdd,stroke:#900");
}

TEST(Reader, TagsRepeatOnceAndKeepTheirOrder) {
    const Diagram d = draw("class A late\n[*] --> A:::x:::y\nclass A,B x z\nA:::y --> B\nclass B late");
    EXPECT_EQ(state(d, "A").tags, (Strings{"x", "y", "z", "late"}));
    EXPECT_EQ(state(d, "B").tags, (Strings{"late", "x", "z"}));
}

TEST(Reader, SkipsNotes) {
    const Diagram d = read_mermaid(diagram_file("notes"));
    EXPECT_EQ(ids(d), (Strings{"A", "B"}));
    EXPECT_EQ(d.transitions.size(), 3u);
}

TEST(Reader, ReadsCompositesToAnyDepth) {
    const Diagram d = read_mermaid(diagram_file("nested"));
    EXPECT_EQ(state(d, "Order").parent, "");
    EXPECT_TRUE(state(d, "Order").composite);
    EXPECT_EQ(state(d, "Order").direction, "LR");
    EXPECT_EQ(state(d, "Payment").parent, "Order");
    EXPECT_EQ(state(d, "Asking").parent, "Payment");
    EXPECT_FALSE(state(d, "Asking").composite);
    EXPECT_EQ(state(d, "Cancelled").parent, "");
    EXPECT_EQ(d.transitions[2].in, "Order");
    EXPECT_EQ(d.transitions[3].in, "Payment");
}

TEST(Reader, GivesAStateToTheFirstCompositeThatNamesIt) {
    const Diagram d = draw("[*] --> a\nstate P {\n a --> b\n}\nstate Q {\n c --> a\n}");
    EXPECT_EQ(state(d, "a").parent, "P");
    EXPECT_EQ(state(d, "c").parent, "Q");
    ASSERT_EQ(d.warnings.size(), 1u);
    EXPECT_EQ(d.warnings[0].code, "two_parents");
}

TEST(Reader, DoesNotPutACompositeInsideItself) {
    const Diagram d = draw("state P {\n a --> P\n state Q {\n b --> P\n }\n}");
    EXPECT_EQ(state(d, "P").parent, "");
    EXPECT_TRUE(d.warnings.empty());
}

TEST(Reader, MergesACompositeThatIsOpenedTwice) {
    const Diagram d = draw("state P {\n a\n}\nstate P {\n b\n}");
    EXPECT_EQ(state(d, "a").parent, "P");
    EXPECT_EQ(state(d, "b").parent, "P");
}

TEST(Reader, ReadsChoiceForkAndJoin) {
    const Diagram choices = read_mermaid(diagram_file("choices"));
    EXPECT_EQ(state(choices, "size").kind, StateKind::choice);
    EXPECT_EQ(state(choices, "colour").kind, StateKind::choice);
    const Diagram room = read_mermaid(diagram_file("machine_room"));
    EXPECT_EQ(state(room, "split").kind, StateKind::fork);
    EXPECT_EQ(state(room, "meet").kind, StateKind::join);
    ASSERT_EQ(room.regions.size(), 1u);
    EXPECT_EQ(room.regions[0].line, 6);
    EXPECT_EQ(room.regions[0].in, "Works");
    EXPECT_EQ(state(draw("state x<<choice>>"), "x").kind, StateKind::choice);
    EXPECT_EQ(state(draw("state \"a b\" <<CHOICE>>"), "a b").kind, StateKind::choice);
}

TEST(Reader, ReadsNamesOfAllKinds) {
    const Diagram d = read_mermaid(diagram_file("names"));
    EXPECT_EQ(ids(d), (Strings{"in progress", "on-hold", "Größe", "状態", "note", "state", "accTitle-2"}));
}

TEST(Reader, ReadsTransitionsWithoutBlanks) {
    const Diagram d = draw("[*]-->a\na-->b-c\nb-c-->[*]");
    EXPECT_EQ(ids(d), (Strings{"a", "b-c"}));
    EXPECT_EQ(d.transitions[2].to, "[*]");
}

TEST(Reader, ReadsEveryKindOfLineEnd) {
    const std::string text =
        "stateDiagram-v2\n  [*] --> A\n  A --> B : go\n  note left of A\n  x\n  end note\n  B : text\n";
    const Diagram unix_like = read_mermaid(text);
    for (const std::string end : {"\r\n", "\r"}) {
        std::string other;
        for (const char c : text) c == '\n' ? other += end : other += c;
        const Diagram d = read_mermaid("\xEF\xBB\xBF" + other);
        ASSERT_EQ(ids(d), ids(unix_like));
        EXPECT_EQ(d.transitions[1].text, "go");
        EXPECT_EQ(state(d, "B").description, "text");
        EXPECT_EQ(d.transitions[1].where.line, 3);
    }
}

TEST(Reader, TakesTabsAndWideBlanksAsBlanks) {
    const Diagram d = read_mermaid(
        "stateDiagram-v2\n\t[*]\t-->\tA\n\xC2\xA0"
        "A\xE3\x80\x80-->\xE2\x80\x89"
        "B : go\xC2\xA0\n");
    EXPECT_EQ(ids(d), (Strings{"A", "B"}));
    EXPECT_EQ(d.transitions[1].text, "go");
}

TEST(Reader, KeepsLabelsAsWritten) {
    const Diagram d = draw(
        "A --> B: long <br/>line \\x  y\nA --> B : info: key: value\nA --> B : 50%%\nA --> B : go %% why\nA --> B :");
    EXPECT_EQ(d.transitions[0].text, "long <br/>line \\x  y");
    EXPECT_EQ(d.transitions[1].text, "info: key: value");
    EXPECT_EQ(d.transitions[2].text, "50%%");
    EXPECT_EQ(d.transitions[3].text, "go");
    EXPECT_EQ(d.transitions[4].text, "");
}

TEST(Reader, CountsColumnsInCharacters) {
    const Diagram d = draw("Größe --> B; ü --> A");
    EXPECT_EQ(d.transitions[1].where.line, 2);
    EXPECT_EQ(d.transitions[1].where.column, 14);
}

TEST(Reader, ReadsAStateDeclaredAloneLikeMermaidDoes) {
    const Diagram d = draw("state lonely\nstate known\nknown --> other");
    EXPECT_EQ(ids(d), (Strings{"known", "other"}));
    ASSERT_EQ(d.warnings.size(), 1u);
    EXPECT_EQ(d.warnings[0].code, "not_a_state");
}

TEST(Reader, ReadsSeveralStatementsOnALine) {
    const Diagram d = draw("state P { a --> b; b --> a } state Q { c }; P --> Q");
    EXPECT_EQ(d.transitions.size(), 3u);
    EXPECT_EQ(state(d, "b").parent, "P");
    EXPECT_EQ(state(d, "c").parent, "Q");
}

TEST(Reader, ACompositeMayBeginOnALaterLine) {
    const Diagram d = draw(
        "state P\n{\n a --> b\n}\nstate Q %% why\n\n# a comment\n  {\n c\n}\nstate \"long\" as R\n{ d }\nstate \"s "
        "t\"\n{ e }\nstate T:::tag\n{ f }\nP --> Q");
    for (const auto& [child, parent] : {std::pair{"a", "P"}, {"c", "Q"}, {"d", "R"}, {"e", "s t"}, {"f", "T"}})
        EXPECT_EQ(state(d, child).parent, parent);
    EXPECT_EQ(state(d, "R").description, "long");
    EXPECT_EQ(state(d, "T").tags, Strings{"tag"});
    EXPECT_TRUE(d.warnings.empty());
    EXPECT_EQ(d.transitions[0].where.line, 4);
    EXPECT_EQ(core::write_mermaid(read_mermaid(core::write_mermaid(d))), core::write_mermaid(d));
    EXPECT_EQ(draw("state P\n\n%% x\na --> P").warnings.size(), 0u);
}

TEST(Reader, ReadsADiagramInAFence) {
    const std::string text = "---\ntitle: t\n---\nstateDiagram-v2\n  [*] --> A\n  A --> B : go\n";
    const std::string canonical = core::write_mermaid(read_mermaid(text));
    for (const std::string& page :
         {"```mermaid\n" + text + "```\n", "```mermaid\n" + text + "```",
          "~~~ Mermaid title=x\n" + text + "~~~~\n\n \n", "\n\n  ````mermaid\n" + text + "  ````\n",
          "```\n" + text + "```", "```{mermaid}\n" + text, "::: mermaid\n" + text + ":::\n",
          "\xEF\xBB\xBF```mermaid\n" + text + "```"}) {
        for (const std::string end : {"\n", "\r\n", "\r"}) {
            std::string given;
            for (const char c : page) c == '\n' ? given += end : given += c;
            const Diagram d = read_mermaid(given);
            EXPECT_EQ(core::write_mermaid(d), canonical) << given;
            EXPECT_EQ(d.title, "t") << given;
        }
    }
    EXPECT_EQ(read_mermaid("\n```mermaid\nstateDiagram-v2\n  A --> B\n```").transitions[0].where.line, 4);
    EXPECT_EQ(read_mermaid("```mermaid\nstateDiagram-v2\n  A --> B\n```").transitions[0].where.column, 3);
}

TEST(Reader, LargeTextsTakeLinearTime) {
    std::string wide;
    while (wide.size() < 10'000'000) {
        wide += "a" + std::to_string(wide.size() % 50'000) + "-->b:::t" + std::to_string(wide.size() % 999) + ";";
    }
    const Diagram d = draw(wide);
    EXPECT_GT(d.transitions.size(), 400'000u);
    std::string open;
    while (open.size() < 10'000'000) open += "%%{ never closed\n";
    EXPECT_TRUE(draw(open).states.empty());
    std::string declared;
    while (declared.size() < 10'000'000) declared += "state x\n\n%% no brace\n";
    EXPECT_TRUE(draw(declared).states.empty());
    const std::string brackets = "A --> B : " + std::string(5'000'000, '(');
    EXPECT_EQ(draw(brackets).transitions[0].label.event.size(), 5'000'000u);
}

}  // namespace
}  // namespace pawl::test
