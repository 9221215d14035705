// Structures of flows: what is read, what is rejected, and the resulting graph.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/error.hpp"
#include "packs/saga/saga.hpp"

namespace pawl::test {
namespace {

using core::saga::Graph;

struct Compiled {
    std::string text;
    Graph graph;
};

// The graph points into the text.
std::unique_ptr<Compiled> compiled(std::string structure) {
    auto made = std::make_unique<Compiled>();
    made->text = std::move(structure);
    const core::Json json = core::read_json(made->text);
    const core::saga::Item item = core::saga::read_structure(json);
    made->graph = core::saga::compile(item);
    return made;
}

std::string rejection(const std::string& structure) {
    try {
        compiled(structure);
    } catch (const core::Error& error) {
        return error.what();
    }
    return "nothing was rejected";
}

// Edges as "a>b", entries as <f, ends as f>.
std::set<std::string> edges(const Graph& graph) {
    auto name = [&](int i) {
        const core::saga::Node& node = graph.nodes[i];
        return node.kind == core::saga::NodeKind::entry ? "<" + node.name
               : node.kind == core::saga::NodeKind::end ? node.name + ">"
                                                        : node.name;
    };
    std::set<std::string> result;
    for (const core::saga::Edge& edge : graph.edges) result.insert(name(edge.from) + " " + name(edge.to));
    return result;
}

std::vector<std::string> providers(const Graph& graph, const std::string& node, const std::string& parameter) {
    for (const core::saga::Parameter& each : graph.parameters)
        if (graph.nodes[each.node].name == node && each.need.parameter == parameter) {
            std::vector<std::string> names;
            for (const int i : each.providers) names.push_back(graph.nodes[i].name);
            return names;
        }
    return {"no such parameter"};
}

using Names = std::vector<std::string>;

TEST(Saga, LinearFlowsAreChains) {
    const auto made = compiled(
        R"({"flow": "linear", "name": "f", "children": [{"task": "a"}, {"flow": "linear", "name": "g", "children": []}, {"task": "b"}]})");
    EXPECT_EQ(edges(made->graph), (std::set<std::string>{"<f a", "a <g", "<g g>", "g> b", "b f>"}));
}

TEST(Saga, UnorderedFlowsFanOutBehindTheirRetry) {
    const auto made = compiled(
        R"({"flow": "unordered", "name": "f", "retry": {"retry": "Times", "name": "r", "attempts": 2}, "children": [{"task": "a"}, {"task": "b"}]})");
    EXPECT_EQ(edges(made->graph), (std::set<std::string>{"<f r", "r a", "r b", "a f>", "b f>"}));
    EXPECT_EQ(made->graph.nodes[2].controller, 1);
    EXPECT_EQ(made->graph.nodes[1].controller, core::saga::nowhere);
}

TEST(Saga, ControllersAreTheNearestOutside) {
    const auto made =
        compiled(R"({"flow": "linear", "name": "f", "retry": {"retry": "AlwaysRevert", "name": "r"}, "children": [
        {"flow": "linear", "name": "g", "retry": {"retry": "AlwaysRevert", "name": "s"}, "children": [{"task": "a"}]}, {"task": "b"}]})");
    std::map<std::string, int> controllers;
    for (const auto& node : made->graph.nodes) controllers[node.name] = node.controller;
    EXPECT_EQ(controllers["s"], 1);
    EXPECT_EQ(controllers["a"], 3);
    EXPECT_EQ(controllers["b"], 1);
}

TEST(Saga, GraphsLinkProvidersToTheTasksThatRequireThem) {
    const auto made = compiled(
        R"({"flow": "graph", "name": "f", "children": [{"task": "c", "requires": ["x"]}, {"task": "a", "provides": "x"}, {"task": "b"}],
        "links": [{"from": "b", "to": "a"}]})");
    EXPECT_EQ(edges(made->graph), (std::set<std::string>{"<f b", "b a", "a c", "c f>"}));
    EXPECT_EQ(providers(made->graph, "c", "x"), Names{"a"});
}

TEST(Saga, TheNearestProviderWins) {
    const auto made = compiled(
        R"({"flow": "linear", "name": "f", "retry": {"retry": "Times", "name": "r", "provides": "x"}, "children": [
        {"task": "a", "provides": "x"}, {"flow": "linear", "name": "g", "children": [{"task": "b", "requires": ["x"]}, {"task": "c", "provides": "x"}]},
        {"task": "d", "rebind": {"p": "x"}}, {"task": "e", "requires": ["x"], "inject": {"x": 7}}]})");
    EXPECT_EQ(providers(made->graph, "b", "x"), Names{"a"});
    EXPECT_EQ(providers(made->graph, "d", "p"), Names{"c"});
    EXPECT_EQ(providers(made->graph, "e", "x"), Names{});
}

TEST(Saga, ARetryProvidesToItsOwnScope) {
    const auto made = compiled(R"({"flow": "linear", "name": "f", "children": [
        {"flow": "linear", "name": "g", "retry": {"retry": "Times", "name": "r", "provides": "x"}, "children": [{"task": "a", "requires": ["x"]}]},
        {"task": "b", "requires": ["x"]}]})");
    EXPECT_EQ(providers(made->graph, "a", "x"), Names{"r"});
    EXPECT_EQ(providers(made->graph, "b", "x"), Names{});
}

TEST(Saga, AProviderThatMayBeIgnoredHasAnotherBehindIt) {
    const auto made = compiled(R"({"flow": "linear", "name": "f", "children": [{"task": "a", "provides": "x"},
        {"flow": "graph", "name": "g", "children": [{"task": "b"}, {"task": "c", "provides": "x"}], "links": [{"from": "b", "to": "c", "decider": {"allow": false}, "depth": "ATOM"}]},
        {"task": "d", "requires": ["x"]}]})");
    EXPECT_EQ(providers(made->graph, "d", "x"), (Names{"c", "a"}));
    ASSERT_EQ(made->graph.votes.size(), 1u);
    EXPECT_EQ(made->graph.nodes[made->graph.votes[0].target].name, "c");
    EXPECT_EQ(made->graph.votes[0].depth, "ATOM");
}

TEST(Saga, ADeciderIntoAFlowBearsOnItsFirstAtoms) {
    const auto made = compiled(R"({"flow": "graph", "name": "f", "children": [{"task": "a"},
        {"flow": "unordered", "name": "g", "children": [{"task": "b"}, {"flow": "linear", "name": "h", "children": [{"task": "c"}, {"task": "d"}]}]}],
        "links": [{"from": "a", "to": "g", "decider": {"when_result_in": [1]}}]})");
    std::set<std::string> targets;
    for (const auto& vote : made->graph.votes) targets.insert(made->graph.nodes[vote.target].name);
    EXPECT_EQ(targets, (std::set<std::string>{"b", "c"}));
}

TEST(Saga, Rejections) {
    EXPECT_EQ(rejection(R"({"retry": "Times", "name": "r"})"), "a retry cannot stand alone, it belongs to a flow");
    EXPECT_EQ(rejection(R"({"flow": "linear", "name": "f", "children": [{"task": "a"}, {"task": "a"}]})"),
              "duplicate atom name \"a\"");
    EXPECT_EQ(rejection(R"({"flow": "circle", "name": "f"})"), "unknown kind of flow \"circle\"");
    EXPECT_EQ(rejection(R"({"task": "a", "colour": "red"})"), "a task has an unknown key \"colour\"");
    EXPECT_EQ(
        rejection(
            R"({"flow": "graph", "name": "f", "children": [{"task": "a"}, {"task": "b"}], "links": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}]})"),
        "the items of flow \"f\" have a dependency cycle");
    EXPECT_EQ(
        rejection(
            R"({"flow": "graph", "name": "f", "children": [{"task": "a", "provides": "x"}, {"task": "b", "provides": "x"}, {"task": "c", "requires": ["x"]}]})"),
        "\"x\", which \"c\" requires, is provided by several items of flow \"f\"");
    EXPECT_EQ(
        rejection(
            R"({"flow": "graph", "name": "f", "children": [{"task": "a"}], "links": [{"from": "a", "to": "z"}]})"),
        "flow \"f\" has no item \"z\" to link");
    EXPECT_EQ(rejection(R"({"flow": "linear", "name": "f", "retry": {"retry": "ForEach", "name": "r"}})"),
              "retry \"r\" has no list of values");
    EXPECT_EQ(rejection(R"({"flow": "linear", "name": "f", "children": [7]})"), "expected a flow or a task");
}

TEST(Saga, WrittenAsJson) {
    const auto made = compiled(
        R"({"flow": "linear", "name": "f \"q\" \u00e9", "children": [{"task": "a", "requires": ["x"], "inject": {"x": {"y": [1, null]}, "z": 1}}]})");
    const auto json = nlohmann::json::parse(core::saga::write(made->graph));
    EXPECT_EQ(json["nodes"].size(), 3u);
    EXPECT_EQ(json["nodes"][0]["name"], "f \"q\" \u00e9");
    EXPECT_EQ(json["parameters"].size(), 1U) << "z is not required";
    EXPECT_EQ(json["parameters"][0]["injected"].dump(), R"({"y":[1,null]})");
    EXPECT_EQ(json["edges"].dump(), "[[0,1],[1,2]]");
}

TEST(Saga, JsonIsReadAsOthersReadIt) {
    for (const char* text :
         {R"({"a": [1, -2.5e3, true, false, null, "\u20ac\ud83d\ude00\n\\"], "b": {}})", "[]", "\"x\"", "  7 "}) {
        const std::string source = text;
        EXPECT_EQ(nlohmann::json::parse(std::string(core::read_json(source).raw)), nlohmann::json::parse(source));
    }
    const std::string escaped = R"("\u20ac\ud83d\ude00")";
    EXPECT_EQ(core::read_json(escaped).string, nlohmann::json::parse(escaped).get<std::string>());
    for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "\"a", "\"\\x\"", "\"\\ud800\"", "1 2", "{\"a\":1,}"})
        EXPECT_THROW(core::read_json(text), core::Error) << text;
    EXPECT_THROW(core::read_json(std::string(100000, '[')), core::Error);
}

TEST(Saga, ATaskThatWaitsIsNotExecuted) {
    EXPECT_EQ(
        rejection(
            R"({"task": "a", "signal": "go", "wait_seconds": 1.5, "timeout_seconds": 0, "revert": "undo", "execute": null})"),
        "nothing was rejected");
    EXPECT_EQ(rejection(R"({"task": "a", "signal": "go", "execute": "b"})"),
              "task \"a\" waits and cannot have \"execute\"");
    EXPECT_EQ(rejection(R"({"task": "a", "wait_seconds": 1, "execute": "b"})"),
              "task \"a\" waits and cannot have \"execute\"");
    EXPECT_EQ(rejection(R"({"task": "a", "signal": ""})"), "\"signal\" of task \"a\" has no name");
    EXPECT_EQ(rejection(R"({"task": "a", "signal": 1})"), "\"signal\" of task \"a\" must be a text");
}

TEST(Saga, SecondsAreNumbers) {
    for (const char* key : {"timeout_seconds", "revert_timeout_seconds", "wait_seconds"})
        for (const char* value : {"-1", "\"1\"", "1e10", "[]", "true"})
            EXPECT_EQ(rejection(std::string(R"({"task": "a", ")") + key + "\": " + value + "}"),
                      std::string("\"") + key + "\" of task \"a\" must be a number of seconds");
}

}  // namespace
}  // namespace pawl::test
