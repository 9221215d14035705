// From the diagram to transitions between atomic states.
#include <gtest/gtest.h>

#include "support.hpp"

namespace pawl::test {
namespace {

using core::Machine;
using Strings = std::vector<std::string>;
using Names = std::set<std::string>;

std::string rejection(const std::string& body) {
    return error_of([&] { machine(body); }).code;
}

TEST(Compile, KeepsStatesAndTransitionsInTheOrderOfTheDiagram) {
    const Machine m = machine("[*] --> A : begin\nA --> B : go(x) [g] after 1 h / f\nB --> A\nB --> [*]");
    EXPECT_EQ(texts(m), (Strings{"[*] -begin-> A", "A -go(x)[g]{1 h}/f-> B", "B --> A"}));
    EXPECT_EQ(initials(m), Names{"A"});
    EXPECT_EQ(terminals(m), Names{"B"});
    EXPECT_EQ(m.transitions()[1].where.line, 3);
    EXPECT_TRUE(m.transitions()[1].notes.empty());
    EXPECT_EQ(m.transitions()[1].drawn_from, "");
}

TEST(Compile, SeveralFirstStates) {
    const Machine m = machine("[*] --> A : x\n[*] --> B : y\n[*] --> A : z");
    EXPECT_EQ(initials(m), (Names{"A", "B"}));
    EXPECT_EQ(texts(m), (Strings{"[*] -x-> A", "[*] -y-> B", "[*] -z-> A"}));
}

TEST(Compile, ATransitionFromACompositeLeavesEveryStateInIt) {
    const Machine m =
        machine("[*] --> P\nstate P {\n[*] --> a\na --> b : go\nstate Q {\n c --> b : back\n}\n}\nP --> Out : cancel");
    EXPECT_EQ(texts(m), (Strings{"[*] --> a", "a -go-> b", "c -back-> b", "a -cancel-> Out", "b -cancel-> Out",
                                 "c -cancel-> Out"}));
    EXPECT_EQ(m.transitions()[3].drawn_from, "P");
    EXPECT_EQ(m.transitions()[3].where.line, 10);
    EXPECT_EQ(m.transitions()[1].drawn_from, "");
}

TEST(Compile, AnInnerTransitionForTheSameEventWins) {
    const Machine m = machine(
        "[*] --> P\nstate P {\n[*] --> a\na --> b : cancel\nstate Q {\nc\nd --> b : cancel\n}\nQ --> a : cancel\n}\nP "
        "--> Out : cancel");
    EXPECT_EQ(texts(m), (Strings{"[*] --> a", "a -cancel-> b", "d -cancel-> b", "c -cancel-> a", "b -cancel-> Out"}));
}

TEST(Compile, TransitionsWithoutAnEventHideNothing) {
    const Machine m = machine("[*] --> P\nstate P {\n[*] --> a\na --> b\n}\nP --> Out");
    EXPECT_EQ(texts(m), (Strings{"[*] --> a", "a --> b", "a --> Out", "b --> Out"}));
}

TEST(Compile, ATransitionToACompositeEntersItsInitialChild) {
    const Machine m =
        machine("[*] --> S\nS --> P : go [x] / f\nstate P {\n[*] --> Q : ignored [y] / g\nstate Q {\n[*] --> a\n}\n}");
    EXPECT_EQ(texts(m), (Strings{"[*] --> S", "S -go[x,y]/f,g-> a"}));
}

TEST(Compile, ACompositeWithTwoInitialChildrenIsEnteredAtBoth) {
    const Machine m = machine("[*] --> P : new\nstate P {\n[*] --> a : [x]\n[*] --> b : [y]\n}");
    EXPECT_EQ(texts(m), (Strings{"[*] -new[x]-> a", "[*] -new[y]-> b"}));
    EXPECT_EQ(initials(m), (Names{"a", "b"}));
}

TEST(Compile, ACompositeMayLeadToItself) {
    const Machine m = machine("[*] --> P\nstate P {\n[*] --> a\na --> b : go\n}\nP --> P : again\nP --> b : jump");
    EXPECT_EQ(texts(m),
              (Strings{"[*] --> a", "a -go-> b", "a -again-> a", "b -again-> a", "a -jump-> b", "b -jump-> b"}));
}

TEST(Compile, FlattensChoices) {
    const Machine m = core::compile(core::read_mermaid(diagram_file("choices")));
    EXPECT_EQ(texts(m), (Strings{"[*] --> New", "New -sort(by)[known,if n < 10]/weigh-> Small",
                                 "New -sort(by)[known,big,red]/weigh,paint-> Red",
                                 "New -sort(by)[known,big,blue]/weigh-> Blue"}));
}

TEST(Compile, AChoiceMayFollowTheStartAndEnterComposites) {
    const Machine m = machine(
        "state c <<choice>>\n[*] --> c : new\nc --> A : small\nc --> P : [big]\nstate P {\n[*] --> x : [deep]\n}");
    EXPECT_EQ(texts(m), (Strings{"[*] -new[small]-> A", "[*] -new[big,deep]-> x"}));
}

TEST(Compile, AChoiceMayEndARow) {
    const Machine m = machine(
        "state c <<choice>>\n[*] --> A\nA --> c : check\nc --> [*] : [fine]\nc --> B : [broken]\nB --> A : mend");
    EXPECT_EQ(terminals(m), Names{"A"});
    EXPECT_EQ(texts(m), (Strings{"[*] --> A", "A -check[broken]-> B", "B -mend-> A"}));
}

TEST(Compile, TerminalAtTheTop) {
    const Machine m = machine("[*] --> P\nstate P {\n[*] --> a\na --> b\n}\nP --> [*]\nb --> C\nC --> b\n");
    EXPECT_EQ(terminals(m), (Names{"a", "b"}));
}

TEST(Compile, TheEndOfACompositeIsTheEndOnlyIfNothingLeavesIt) {
    const std::string inside = "[*] --> P\nstate P {\n[*] --> a\na --> b : go\nb --> [*]\n}\n";
    EXPECT_EQ(terminals(machine(inside)), Names{"b"});
    EXPECT_EQ(terminals(machine(inside + "P --> Q : on\nQ --> [*]")), Names{"Q"});
    EXPECT_EQ(terminals(machine(inside + "P --> Q : on\nP --> [*]")), (Names{"a", "b"}));
    EXPECT_EQ(terminals(machine("state O {\n" + inside + "}\n[*] --> P\nO --> Q : on")), Names{});
    EXPECT_EQ(terminals(machine("[*] --> O\nstate O {\n" + inside + "P --> [*]\nP --> Q : on\nQ --> a : back\n}\n")),
              (Names{"a", "b"}));
}

TEST(Compile, InheritsTags) {
    const Machine m = core::compile(core::read_mermaid(diagram_file("nested") + "\nclass Asking money,slow\n"));
    EXPECT_EQ(state(m, "Asking").tags, (Strings{"money", "slow", "customer"}));
    EXPECT_EQ(state(m, "Cart").tags, (Strings{"customer"}));
    EXPECT_EQ(state(m, "Cancelled").tags, Strings{});
    EXPECT_EQ(m.states()[static_cast<std::size_t>(state(m, "Asking").parent)].name, "Payment");
    EXPECT_EQ(state(m, "Order").description, "the whole order");
}

TEST(Compile, CollapsesEqualTransitions) {
    const Machine m = machine(
        "[*] --> A\n[*] --> A\nA --> B : go\nA --> B : go(x)\nA --> B : go [g]\nA --> B : go / f\nA --> B : go");
    EXPECT_EQ(texts(m), (Strings{"[*] --> A", "A -go-> B", "A -go[g]-> B", "A -go/f-> B"}));
}

TEST(Compile, RejectsWhatOneColumnCannotHold) {
    const auto room = [] { core::compile(core::read_mermaid(diagram_file("machine_room"))); };
    const core::Error region = error_of(room);
    EXPECT_EQ(region.code, "region");
    EXPECT_EQ(region.where.line, 6);
    EXPECT_EQ(std::string(region.what()), "concurrent regions (--) in \"Works\" cannot be held by one column");
    const core::Error fork = error_of([] { machine("[*] --> f\nstate f <<fork>>\nf --> A"); });
    EXPECT_EQ(fork.code, "fork");
    EXPECT_NE(std::string(fork.what()).find("fork \"f\""), std::string::npos);
    EXPECT_EQ(fork.where.line, 3);
    EXPECT_EQ(rejection("[*] --> A\nA --> j\nstate j <<join>>"), "join");
}

TEST(Compile, RejectsWhatMeansNothing) {
    EXPECT_EQ(rejection(""), "no_initial_state");
    EXPECT_EQ(rejection("A --> B"), "no_initial_state");
    EXPECT_EQ(rejection("state P {\n[*] --> a\n}"), "no_initial_state");
    EXPECT_EQ(rejection("[*] --> [*]"), "definition_error");
    EXPECT_EQ(rejection("[*] --> A\nA --> A : pawl.delete"), "reserved_event");
    EXPECT_EQ(rejection("[*] --> A\nA --> P : x\nstate P {\n a --> b\n}"), "no_initial_child");
    EXPECT_EQ(rejection("[*] --> A\nA --> P : x\nstate P {\n}"), "no_initial_child");
    EXPECT_EQ(rejection("[*] --> A\nA --> c\nstate c <<choice>>"), "empty_choice");
    EXPECT_EQ(rejection("[*] --> A\nA --> c\nstate c <<choice>>\nstate d <<choice>>\nc --> d\nd --> c\nd --> A"),
              "choice_cycle");
    EXPECT_EQ(rejection("[*] --> P\nstate P {\n[*] --> Q\n}\nstate Q {\n[*] --> P\n}"), "entry_cycle");
}

TEST(Compile, NamesThePlace) {
    const core::Error error = error_of([] { machine("[*] --> A\nA --> P : x\nstate P {\n a --> b\n}"); });
    EXPECT_EQ(error.where.line, 3);
    EXPECT_EQ(error.where.column, 1);
    EXPECT_FALSE(error.hint.empty());
}

TEST(Compile, GuardsAgainstExplosions) {
    std::string doubling = "[*] --> c0\n";
    for (int i = 0; i < 60; ++i) {
        const std::string here = "c" + std::to_string(i);
        const std::string next = "c" + std::to_string(i + 1);
        doubling += "state " + here + " <<choice>>\n" + here + " --> " + next + " : left\n" + here + " --> " + next +
                    " : right\n";
    }
    EXPECT_EQ(rejection(doubling), "too_many_arrows");

    std::string product = "[*] --> a0\nstate P {\n";
    for (int i = 0; i < 3000; ++i) product += "a" + std::to_string(i) + "\n";
    product += "}\n";
    for (int i = 0; i < 3000; ++i) product += "P --> a" + std::to_string(i) + " : e" + std::to_string(i) + "\n";
    EXPECT_EQ(rejection(product), "too_many_arrows");

    std::string chain = "[*] --> c0\n";
    for (int i = 0; i < 100'000; ++i) {
        chain += "state c" + std::to_string(i) + " <<choice>>\nc" + std::to_string(i) + " --> c" +
                 std::to_string(i + 1) + "\n";
    }
    EXPECT_EQ(rejection(chain), "too_deep");
}

}  // namespace
}  // namespace pawl::test
