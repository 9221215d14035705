// The canonical Mermaid text and the DOT text of a diagram.
#include <gtest/gtest.h>

#include "same.hpp"
#include "support.hpp"

namespace pawl::test {
namespace {

using core::Diagram;
using core::read_mermaid;
using core::write_dot;
using core::write_mermaid;

void expect_survives(const std::string& text, const std::string& what) {
    const Diagram diagram = read_mermaid(text);
    const std::string print = write_mermaid(diagram);
    Diagram again;
    ASSERT_NO_THROW(again = read_mermaid(print)) << what << "\n" << print;
    EXPECT_EQ(difference(diagram, again), "") << what << "\n" << print;
    EXPECT_EQ(write_mermaid(again), print) << what;
}

TEST(Writer, EveryDiagramHereSurvives) {
    for (const char* const folder : {"test/diagrams", "sql", "test/fuzz/corpus"}) {
        for (const auto& path : diagram_files(root() / folder)) expect_survives(file(path), path.string());
    }
}

TEST(Writer, WritesOneFormOnly) {
    const std::string canonical =
        "---\ntitle: \"Two: of \\\"them\\\"\"\n---\n"
        "stateDiagram-v2\n"
        "    direction LR\n"
        "    [*] --> P\n"
        "    state P {\n"
        "        direction TB\n"
        "        [*] --> a\n"
        "        state c <<choice>>\n"
        "        a --> c : go(x, y) [g] after 5 min / f, h\n"
        "        b\n"
        "    }\n"
        "    P --> \"to do\" : later\n"
        "    P : the first\n"
        "    P : line\n"
        "    classDef red fill:#f00\n"
        "    class P,a red\n"
        "    class a owned\n";
    EXPECT_EQ(write_mermaid(read_mermaid(canonical)), canonical);
    const std::string same =
        "---\ntitle: 'Two: of \"them\"'\n---\n%% remark\nstateDiagram\ndirection LR\n[*]-->P:::red\nP: the first\n"
        "state P {\n direction TD\n [*] --> a:::red\n state c [[choice]]\n a --> c:go( x,y )[g] after(5 min)/f,h\n "
        "b\n}\n"
        "note left of P : hm\nP-->\"to do\" : later\nclassDef red fill:#f00;\nclass a owned\nP : line";
    EXPECT_EQ(write_mermaid(read_mermaid(same)), canonical);
}

TEST(Writer, OpensAnOrdinaryCompositeOnce) {
    const std::string text = write_mermaid(read_mermaid(diagram_file("nested")));
    std::size_t count = 0;
    for (std::size_t at = text.find("{\n"); at != std::string::npos; at = text.find("{\n", at + 1)) ++count;
    EXPECT_EQ(count, 2u) << text;
}

TEST(Writer, KeepsOrderParentsAndOddNames) {
    for (const char* const body : {
             "a --> b\nstate P {\n c\n a\n}\nstate Q {\n b\n}",
             "state P {\n}\nstate Q {\nstate R {\n}\n}",
             "state P {\n a --> b\n}\nc --> a\nstate P {\n d --> a\n}\nd --> e",
             "b --> x\nstate P {\n state Q {\n  y --> b\n }\n x --> z\n}\n",
             "state P {\n a --> q\n}\nstate Q {\n q --> a\n}\nq --> P",
             "state P {\n Q\n}\nstate Q {\n P --> a\n}\n",
             "state c <<choice>>\nstate P {\n state d <<choice>>\n d --> c\n}\n x --> d",
             "\"state\"\n\"Note\"\n\"class\" : text\naccTitle --> x\n\"accTitle\" : text",
             "\"a,b\" --> \"#c\"\nclass \"a,b\",\"#c\" \"x y\",z\nclassDef \"x y\" a:b",
             "state \"one %% two\" as a\na : three\nstate \"%%\" as a\nstate \"x\ny\" as b",
             "a --> b : : odd\na --> b : ::: odder\na:::x:::y --> b:::y",
             "state P {\n a --> b\n --\n --\n c --> d\n --\n}\nP --> a",
             "a --> b : go (x ) [y,z]after 5 min/ f",
         }) {
        expect_survives(std::string("stateDiagram-v2\n") + body, body);
    }
}

TEST(Writer, RejectsANameThatCannotBeWritten) {
    Diagram diagram;
    diagram.states.emplace_back().id = "a\"b";
    EXPECT_THROW(write_mermaid(diagram), core::Error);
}

TEST(Writer, EqualDiagramsGiveEqualText) {
    EXPECT_EQ(write_mermaid(draw("A --> B : go(x)[y]\n%% remark")), write_mermaid(draw("\n\n  A-->B:go( x ) [ y ]")));
    EXPECT_NE(write_mermaid(draw("A --> B : go")), write_mermaid(draw("A --> B : Go")));
}

TEST(Dot, DrawsCompositesAsClustersAndEndsAsDoubleLines) {
    const std::string dot = write_dot(read_mermaid(diagram_file("nested")), "an \"order\"");
    for (const char* const part : {
             "digraph \"an \\\"order\\\"\" {",
             "subgraph \"cluster_Order\" {",
             "subgraph \"cluster_Payment\" {",
             "label=\"Order\"",
             "tooltip=\"the whole order\"",
             "\"Cancelled\" [label=\"Cancelled\"",
             "peripheries=2",
             "ltail=\"cluster_Order\"",
             "lhead=\"cluster_Payment\"",
             "\"[*] in Payment\" [shape=circle",
             "label=\" retry [attempts_left] \"",
         }) {
        EXPECT_NE(dot.find(part), std::string::npos) << part << "\n" << dot;
    }
}

TEST(Dot, ColoursTags) {
    const std::string dot = write_dot(read_mermaid(diagram_file("door")), "door");
    EXPECT_NE(dot.find("<<secure>>\\nLocked"), std::string::npos) << dot;
    EXPECT_NE(dot.find("fillcolor=\"#ffdddd\", color=\"#990000\""), std::string::npos) << dot;
    EXPECT_NE(dot.find("style=dashed"), std::string::npos) << dot;
    EXPECT_NE(write_dot(draw("[*] --> A:::owned"), "x").find("#ddf4ff"), std::string::npos);
}

TEST(Dot, DrawsChoicesForksAndQuotes) {
    const std::string room = write_dot(read_mermaid(diagram_file("machine_room")), "room");
    EXPECT_NE(room.find("\"split\" [shape=box"), std::string::npos) << room;
    EXPECT_NE(room.find("shape=doublecircle"), std::string::npos) << room;
    const std::string quoted = write_dot(draw("A --> \"b c\" : say \"hi\" \\ bye"), "x");
    EXPECT_NE(quoted.find("label=\" say \\\"hi\\\" \\\\ bye \""), std::string::npos) << quoted;
    EXPECT_NE(quoted.find("\"b c\""), std::string::npos);
}

}  // namespace
}  // namespace pawl::test
