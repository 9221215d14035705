// The look-ups of a compiled machine, small and large.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

#include "support.hpp"

namespace pawl::test {
namespace {

using core::Machine;
using core::no_state;
using core::StateId;

std::vector<std::int32_t> list(std::span<const std::int32_t> span) {
    return {span.begin(), span.end()};
}

TEST(Machine, FindsAtomicStatesOnly) {
    const Machine m = core::compile(core::read_mermaid(diagram_file("choices") + "state P {\n[*] --> inside\n}\n"));
    EXPECT_EQ(name_of(m, m.find("New")), "New");
    EXPECT_EQ(name_of(m, m.find("inside")), "inside");
    EXPECT_EQ(m.find("size"), no_state);
    EXPECT_EQ(m.find("P"), no_state);
    EXPECT_EQ(m.find("new"), no_state);
    EXPECT_EQ(m.find(""), no_state);
    EXPECT_EQ(m.find("[*]"), no_state);
}

TEST(Machine, ListsTransitionsBetweenAndLeaving) {
    const Machine m = machine("[*] --> A : n\nA --> B : x\nB --> A : y\nA --> A : z\nA --> B : w\n[*] --> B");
    const StateId a = m.find("A");
    const StateId b = m.find("B");
    EXPECT_EQ(list(m.between(a, b)), (std::vector<std::int32_t>{1, 4}));
    EXPECT_EQ(list(m.between(b, a)), (std::vector<std::int32_t>{2}));
    EXPECT_EQ(list(m.between(a, a)), (std::vector<std::int32_t>{3}));
    EXPECT_TRUE(m.between(b, b).empty());
    EXPECT_EQ(list(m.between(no_state, a)), (std::vector<std::int32_t>{0}));
    EXPECT_TRUE(m.between(a, no_state).empty());
    EXPECT_EQ(list(m.leaving(a)), (std::vector<std::int32_t>{1, 3, 4}));
    EXPECT_EQ(list(m.leaving(no_state)), (std::vector<std::int32_t>{0, 5}));
    EXPECT_TRUE(m.leaving(99).empty());
    EXPECT_TRUE(m.leaving(-7).empty());
    EXPECT_TRUE(m.between(99, a).empty());
}

TEST(Machine, KnowsItsEvents) {
    const Machine m = machine("[*] --> A : n\nA --> B : x");
    EXPECT_TRUE(m.knows_event("n"));
    EXPECT_TRUE(m.knows_event("x"));
    EXPECT_FALSE(m.knows_event("X"));
    EXPECT_FALSE(m.knows_event(""));
}

TEST(Machine, AnEmptyOneAnswersToo) {
    Machine m;
    for (int round = 0; round < 2; ++round, m.index()) {
        EXPECT_EQ(m.find("x"), no_state);
        EXPECT_FALSE(m.knows_event("x"));
        EXPECT_TRUE(m.between(no_state, 0).empty());
        EXPECT_TRUE(m.leaving(no_state).empty());
    }
}

TEST(Machine, ACopyStandsOnItsOwn) {
    auto original = std::make_unique<Machine>(machine("[*] --> A\nA --> B : x"));
    const Machine copy = *original;
    original.reset();
    EXPECT_EQ(list(copy.between(copy.find("A"), copy.find("B"))), (std::vector<std::int32_t>{1}));
    EXPECT_TRUE(copy.knows_event("x"));
}

TEST(Machine, ALargeOneAgreesWithAScan) {
    constexpr int states = 1000;
    constexpr int transitions = 10'000;
    std::mt19937 random(7);
    std::string body = "[*] --> s0\n";
    for (int i = 0; i < transitions; ++i) {
        body += "s" + std::to_string(random() % states) + " --> s" + std::to_string(random() % states) + " : e" +
                std::to_string(i % 500) + "\n";
    }
    const Machine m = machine(body);
    std::map<std::pair<StateId, StateId>, std::vector<std::int32_t>> pairs;
    std::map<StateId, std::vector<std::int32_t>> out;
    for (std::size_t i = 0; i < m.transitions().size(); ++i) {
        const core::Transition& transition = m.transitions()[i];
        pairs[{transition.from, transition.to}].push_back(static_cast<std::int32_t>(i));
        out[transition.from].push_back(static_cast<std::int32_t>(i));
        ASSERT_TRUE(transition.event.empty() || m.knows_event(transition.event));
    }
    const auto count = static_cast<StateId>(m.states().size());
    for (StateId from = no_state; from < count; ++from) {
        ASSERT_EQ(list(m.leaving(from)), out[from]);
        ASSERT_EQ(m.find(name_of(m, from)), from);
        for (StateId to = 0; to < count; ++to) {
            const auto known = pairs.find({from, to});
            const auto span = m.between(from, to);
            if (known == pairs.end()) {
                ASSERT_TRUE(span.empty());
            } else {
                ASSERT_EQ(list(span), known->second);
            }
        }
    }
}

}  // namespace
}  // namespace pawl::test
