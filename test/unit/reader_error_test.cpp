// What the reader rejects: the place, and what it expected there.
#include <gtest/gtest.h>

#include "support.hpp"

namespace pawl::test {
namespace {

struct Bad {
    const char* text;
    int line;
    int column;
    const char* message;  // part of it
};

class ReaderErrors : public ::testing::TestWithParam<Bad> {};

TEST_P(ReaderErrors, NameThePlaceAndWhatWasExpected) {
    const Bad& bad = GetParam();
    const core::Error error = error_of([&] { core::read_mermaid(bad.text); });
    EXPECT_NE(std::string(error.what()).find(bad.message), std::string::npos) << error.what();
    EXPECT_EQ(error.where.line, bad.line) << error.what();
    EXPECT_EQ(error.where.column, bad.column) << error.what();
    EXPECT_EQ(error.code, "syntax_error");
}

TEST(ReaderHints, ShortTransition) {
    for (const char* text : {"stateDiagram-v2\nA -> B", "stateDiagram-v2\n[*] -> B"})
        EXPECT_EQ(error_of([&] { core::read_mermaid(text); }).hint, "a transition is written -->");
}

INSTANTIATE_TEST_SUITE_P(
    All, ReaderErrors,
    ::testing::Values(
        Bad{"", 1, 1, "expected 'stateDiagram-v2', found the end of the diagram"},
        Bad{"x", 1, 1, "expected 'stateDiagram-v2', found \"x\""}, Bad{"graph TD\n", 1, 1, "found \"graph\""},
        Bad{"stateDiagram-v3\nA", 1, 1, "expected 'stateDiagram-v2'"},
        Bad{"\n\n---\ntitle: x\n", 3, 1, "front matter is not closed"},
        Bad{"stateDiagram-v2\nA -> B", 2, 3, "expected '-->', ':', ':::' or the end of the line, found \"->\""},
        Bad{"stateDiagram-v2\nA B", 2, 3, "found \"B\""},
        Bad{"stateDiagram-v2\nin progress --> B", 2, 4, "found \"progress\""},
        Bad{"stateDiagram-v2\n  A -->", 2, 8, "expected a state name after '-->', found the end of the diagram"},
        Bad{"stateDiagram-v2\nA -->\nB", 2, 6, "found the end of the line"},
        Bad{"stateDiagram-v2\nA --> : x", 2, 7, "expected a state name after '-->'"},
        Bad{"stateDiagram-v2\nA --> B C", 2, 9, "expected ':', ':::' or the end of the line, found \"C\""},
        Bad{"stateDiagram-v2\n--> B", 2, 1, "expected a state name or a statement"},
        Bad{"stateDiagram-v2\n[*]", 2, 4, "expected '-->' after '[*]'"},
        Bad{"stateDiagram-v2\nstate [*] {", 2, 7, "cannot be declared"},
        Bad{"stateDiagram-v2\nstate", 2, 6, "expected a state name after 'state'"},
        Bad{"stateDiagram-v2\nstate \"x\"", 2, 10, "expected 'as' and a state name"},
        Bad{"stateDiagram-v2\nstate \"x", 2, 7, "a quoted text is not closed"},
        Bad{"stateDiagram-v2\nstate \"x\" as", 2, 13, "expected a state name after 'as'"},
        Bad{"stateDiagram-v2\nstate x <<choise>>", 2, 11, "expected choice, fork or join"},
        Bad{"stateDiagram-v2\nstate x <<choice", 2, 17, "expected '>>'"},
        Bad{"stateDiagram-v2\nstate x foo", 2, 9, "expected '{', ':', '<<choice>>' or the end of the line"},
        Bad{"stateDiagram-v2\nstate P {\n a\n", 2, 7, "composite state \"P\" is not closed: expected '}'"},
        Bad{"stateDiagram-v2\nstate P {\n}\n}", 4, 1, "unexpected '}'"},
        Bad{"stateDiagram-v2\nP {", 2, 3, "expected '-->', ':', ':::' or the end of the line, found \"{\""},
        Bad{"stateDiagram-v2\nstate P {\nstate P {\n}\n}", 3, 7, "cannot be inside itself"},
        Bad{"stateDiagram-v2\nstate P {\nstate Q {\nstate P {\n}\n}\n}", 4, 7, "cannot be inside itself"},
        Bad{"stateDiagram-v2\nstate P {\n}\nstate P <<choice>>", 4, 7, "cannot be a choice"},
        Bad{"stateDiagram-v2\nstate P <<fork>>\nstate P <<choice>>", 3, 7, "two different kinds"},
        Bad{"stateDiagram-v2\nstate P <<fork>>\nstate P {\n}", 3, 7, "cannot have states inside"},
        Bad{"stateDiagram-v2\nstate P;\n{\n}", 3, 1, "expected a state name or a statement, found \"{\""},
        Bad{"stateDiagram-v2\nstate P\n\n{\na b\n}", 5, 3, "found \"b\""},
        Bad{"stateDiagram-v2\nstate P\n{\n a\n", 2, 7, "composite state \"P\" is not closed: expected '}'"},
        Bad{"stateDiagram-v2\nstate P <<fork>>\n{\n}", 2, 7, "cannot have states inside"},
        Bad{"stateDiagram-v2\nstate \"x\"\n\nA", 2, 10, "expected 'as' and a state name"},
        Bad{"```mermaid\nstateDiagram-v2\n  A B\n```", 3, 5, "found \"B\""},
        Bad{"\n~~~\nstateDiagram-v2\nstate P {\n~~~\n", 4, 7, "is not closed"},
        Bad{"```mermaid\nstateDiagram-v2\n```\n\n  Here it ends.", 5, 3,
            "expected the end of the text after the diagram, found \"Here\""},
        Bad{"```mermaid\nstateDiagram-v2\n```\n```mermaid\nstateDiagram-v2\n```", 4, 1,
            "expected the end of the text after the diagram"},
        Bad{"```mermaid\n```", 2, 1, "expected 'stateDiagram-v2', found the end of the diagram"},
        Bad{"```python\nstateDiagram-v2\n```", 1, 1, "expected 'stateDiagram-v2', found \"```python\""},
        Bad{"``mermaid\nstateDiagram-v2\n``", 1, 1, "expected 'stateDiagram-v2'"},
        Bad{"Look:\n```mermaid\nstateDiagram-v2\n```", 1, 1, "expected 'stateDiagram-v2', found \"Look:\""},
        Bad{"stateDiagram-v2\n--\n", 2, 1, "is not allowed outside of one"},
        Bad{"stateDiagram-v2\nstate P {\n -- x\n}", 3, 5, "the end of the line after '--'"},
        Bad{"stateDiagram-v2\ndirection XY", 2, 11, "expected TB, BT, RL or LR, found \"XY\""},
        Bad{"stateDiagram-v2\nnote over A", 2, 6, "expected 'left of', 'right of' or a quoted text"},
        Bad{"stateDiagram-v2\nnote left A", 2, 11, "expected 'of'"},
        Bad{"stateDiagram-v2\nnote left of", 2, 13, "expected a state name"},
        Bad{"stateDiagram-v2\nnote left of A\n text\n end notes\n", 2, 6, "expected 'end note' on a line of its own"},
        Bad{"stateDiagram-v2\nnote \"x\" N1", 2, 10, "expected 'as'"},
        Bad{"stateDiagram-v2\nclass A", 2, 8, "expected a class name"},
        Bad{"stateDiagram-v2\nclass", 2, 6, "expected a state name"},
        Bad{"stateDiagram-v2\nclassDef a", 2, 11, "expected the style of the class"},
        Bad{"stateDiagram-v2\nA:::", 2, 5, "expected a tag after ':::'"},
        Bad{"stateDiagram-v2\nA:::[*]", 2, 5, "cannot be a tag"},
        Bad{"stateDiagram-v2\nhide everything", 2, 6, "'hide empty description'"},
        Bad{"stateDiagram-v2\nscale wide", 2, 11, "'scale <number> width'"},
        Bad{"stateDiagram-v2\naccDescr { x", 2, 11, "expected '}'"},
        Bad{"stateDiagram-v2\n\"\" --> A", 2, 1, "cannot be empty"},
        Bad{"stateDiagram-v2\n\" a\" --> A", 2, 1, "cannot begin or end with blanks"},
        Bad{"stateDiagram-v2\nstate \"a\nb\" {\n}", 2, 7, "nor contain control characters"},
        Bad{"stateDiagram-v2\nstate \"a\x01\":::b", 2, 7, "nor contain control characters"},
        Bad{"stateDiagram-v2\nstate \"[*] x\" {\n}", 2, 7, "a name cannot begin with [*]"},
        Bad{"stateDiagram-v2\n\"[*]\" --> A", 2, 1, "a name cannot begin with [*]"},
        Bad{"stateDiagram-v2\nGrö\x01 --> A", 2, 4, "expected '-->'"}));

TEST(ReaderError, ShowsTheLine) {
    const core::Error error = error_of([] { draw("[*] --> A\n  A ==> B : go"); });
    EXPECT_EQ(error.detail, "Line 3 reads \"A ==> B : go\".");
}

TEST(ReaderError, GuardsAgainstDeepNesting) {
    const auto nested = [](int depth) {
        std::string text;
        for (int i = 0; i < depth; ++i) text += "state s" + std::to_string(i) + " {\n";
        text += "x\n";
        for (int i = 0; i < depth; ++i) text += "}\n";
        return text;
    };
    EXPECT_EQ(draw(nested(core::max_nesting)).states.size(), static_cast<std::size_t>(core::max_nesting) + 1);
    const core::Error error = error_of([&] { draw(nested(100'000)); });
    EXPECT_EQ(error.code, "too_deep");
    EXPECT_EQ(error.where.line, core::max_nesting + 2);
}

TEST(ReaderError, GuardsAgainstDeepNestingInPieces) {
    std::string outwards;
    std::string inwards;
    for (int i = 0; i < 50'000; ++i) {
        outwards += "state s" + std::to_string(i + 1) + " { s" + std::to_string(i) + " }\n";
        inwards += "state s" + std::to_string(i) + " { s" + std::to_string(i + 1) + " }\n";
    }
    EXPECT_EQ(error_of([&] { draw(outwards); }).code, "too_deep");
    EXPECT_EQ(error_of([&] { draw(inwards); }).code, "too_deep");
}

TEST(ReaderError, EveryPrefixOfADiagramIsAnAnswer) {
    for (const auto& path : diagram_files(root() / "test" / "diagrams")) {
        const std::string text = file(path);
        for (std::size_t length = 0; length < text.size(); ++length) {
            try {
                core::read_mermaid(std::string_view(text).substr(0, length));
            } catch (const core::Error& error) {
                EXPECT_GT(error.where.line, 0) << path << " up to " << length;
                EXPECT_GT(error.where.column, 0) << path << " up to " << length;
            }
        }
    }
}

}  // namespace
}  // namespace pawl::test
