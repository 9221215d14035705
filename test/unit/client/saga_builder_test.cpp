// Structures of flows by the builder: the JSON they give, and that the compiler of pawl_saga takes it for what is
// meant.
#include <pawl/saga.hpp>

#include <set>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "packs/saga/saga.hpp"

namespace {

namespace saga = pawl::saga;
using nlohmann::json;
using namespace std::chrono_literals;

// The edges between atoms and flows, by name.
std::set<std::string> edges(const saga::Flow& flow) {
    const std::string text = flow.json().dump();
    const pawl::core::Json read = pawl::core::read_json(text);
    const pawl::core::saga::Item item = pawl::core::saga::read_structure(read);
    const pawl::core::saga::Graph graph = pawl::core::saga::compile(item);
    std::set<std::string> found;
    for (const auto& edge : graph.edges) found.insert(graph.nodes[edge.from].name + ">" + graph.nodes[edge.to].name);
    return found;
}

TEST(SagaBuilder, ATaskWithEverything) {
    const saga::Task task = saga::task("pay")
                                .needs("trip", "amount")
                                .may_need("voucher")
                                .rebind("card", "traveller_card")
                                .inject("currency", "EUR")
                                .provides({"receipt", "balance"})
                                .execute("charge")
                                .revert("refund")
                                .queue("money")
                                .priority(5)
                                .timeout(1500ms)
                                .revert_timeout(2s)
                                .max_losses(3)
                                .description("money");
    EXPECT_EQ(
        task.json(),
        json::parse(
            R"({"task": "pay", "requires": ["trip", "amount"], "optional": ["voucher"], "rebind": {"card": "traveller_card"},
        "inject": {"currency": "EUR"}, "provides": ["receipt", "balance"], "execute": "charge", "revert": "refund", "queue": "money", "priority": 5,
        "timeout_seconds": 1.5, "revert_timeout_seconds": 2.0, "max_losses": 3, "description": "money"})"));
    EXPECT_EQ(saga::task("a").wait_for("said").timeout(1s).json(),
              json::parse(R"({"task": "a", "signal": "said", "timeout_seconds": 1.0})"));
    EXPECT_EQ(saga::task("a").wait(1500ms).json(), json::parse(R"({"task": "a", "wait_seconds": 1.5})"));
    EXPECT_EQ(saga::task("a").provides("x").json()["provides"], "x");
    EXPECT_EQ(saga::task("a").provides_member("x", "deep").provides_member("y", "other").json()["provides"],
              json::parse(R"({"x": "deep", "y": "other"})"));
}

TEST(SagaBuilder, EveryController) {
    EXPECT_EQ(saga::always_revert("r").provides("x").value(7).json(),
              json::parse(R"({"retry": "AlwaysRevert", "name": "r", "provides": "x", "value": 7})"));
    EXPECT_EQ(saga::always_revert_all("r").json(), json::parse(R"({"retry": "AlwaysRevertAll", "name": "r"})"));
    EXPECT_EQ(
        saga::times("r", 3)
            .or_revert_all()
            .backoff({{"base", "1 s"}})
            .on("40001", saga::Answer::retry)
            .on("full", saga::Answer::revert_all)
            .json(),
        json::parse(
            R"({"retry": "Times", "name": "r", "attempts": 3, "revert_all": true, "backoff": {"base": "1 s"}, "on": {"40001": "RETRY", "full": "REVERT_ALL"}})"));
    EXPECT_EQ(saga::for_each("r", {1, "b"}).json(),
              json::parse(R"({"retry": "ForEach", "name": "r", "values": [1, "b"]})"));
    EXPECT_EQ(
        saga::for_each_of("r", "hotels").needs("city").json(),
        json::parse(R"({"retry": "ParameterizedForEach", "name": "r", "values": "hotels", "requires": ["city"]})"));
    EXPECT_EQ(saga::ask_function("r", "shop.again").json(),
              json::parse(R"({"retry": "Function", "name": "r", "function": "shop.again"})"));
}

TEST(SagaBuilder, FlowsAreNested) {
    const saga::Flow flow =
        saga::linear("trip", saga::task("flight"),
                     saga::unordered("stay", saga::task("hotel"), saga::task("car")).retry(saga::times("again", 2)),
                     saga::task("ticket"));
    EXPECT_EQ(edges(flow),
              (std::set<std::string>{"trip>flight", "flight>stay", "stay>again", "again>hotel", "again>car",
                                     "hotel>stay", "car>stay", "stay>ticket", "ticket>trip"}));
}

TEST(SagaBuilder, GraphsHaveLinksAndDeciders) {
    saga::Flow flow = saga::graph("g");
    for (const char* name : {"a", "b", "c"}) flow.add(saga::task(name));
    flow.link("a", "b").link("a", "c", saga::when_result_in({true}), saga::Depth::flow);
    EXPECT_EQ(
        flow.json()["links"],
        json::parse(
            R"([{"from": "a", "to": "b"}, {"from": "a", "to": "c", "decider": {"when_result_in": [true]}, "depth": "FLOW"}])"));
    EXPECT_EQ(edges(flow), (std::set<std::string>{"g>a", "a>b", "a>c", "b>g", "c>g"}));
    EXPECT_EQ(
        saga::graph("g")
            .link("a", "b", saga::when("s.f"), saga::Depth::atom)
            .link("a", "b", saga::allow(false))
            .json()["links"],
        json::parse(
            R"([{"from": "a", "to": "b", "decider": {"function": "s.f"}, "depth": "ATOM"}, {"from": "a", "to": "b", "decider": {"allow": false}, "depth": "ALL"}])"));
}

TEST(SagaBuilder, WhatIsWrongIsForTheCompilerToSay) {
    EXPECT_THROW(edges(saga::linear("f", saga::task("a"), saga::task("a"))), pawl::core::Error);
    EXPECT_THROW(edges(saga::linear("f").link("a", "b")), pawl::core::Error);
    EXPECT_THROW(edges(saga::linear("f", saga::task("a").with("color", "red"))), pawl::core::Error);
}

}  // namespace
