// A libFuzzer target: whatever the bytes are, reading a structure is an answer or a core::Error, and a graph that comes
// out is a graph of a flow.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "packs/saga/saga.hpp"

namespace {

using pawl::core::saga::Graph;
using pawl::core::saga::NodeKind;
using pawl::core::saga::nowhere;

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

bool is_node(const Graph& graph, int node) {
    return node >= 0 && node < static_cast<int>(graph.nodes.size());
}

void check_edges(const Graph& graph) {
    const std::size_t count = graph.nodes.size();
    std::vector<int> waits(count, 0);
    std::vector<std::vector<int>> behind(count);
    std::set<std::pair<int, int>> seen;
    for (const auto& edge : graph.edges) {
        require(is_node(graph, edge.from) && is_node(graph, edge.to), "edges lead from node to node");
        require(seen.emplace(edge.from, edge.to).second, "no edge is there twice");
        ++waits[static_cast<std::size_t>(edge.to)];
        behind[static_cast<std::size_t>(edge.from)].push_back(edge.to);
    }
    std::vector<int> ready;
    for (std::size_t i = 0; i < count; ++i)
        if (waits[i] == 0) ready.push_back(static_cast<int>(i));
    require(ready.size() == 1, "there is one way in");
    std::vector<int> blockers = waits;
    std::size_t passed = 0;
    for (; passed < ready.size(); ++passed) {
        const auto node = static_cast<std::size_t>(ready[passed]);
        const NodeKind kind = graph.nodes[node].kind;
        const bool begins = blockers[node] == 0 && (kind == NodeKind::entry || kind == NodeKind::end);
        for (const int next : behind[node]) {
            if (begins) --blockers[static_cast<std::size_t>(next)];
            if (--waits[static_cast<std::size_t>(next)] == 0) ready.push_back(next);
        }
    }
    require(passed == count, "every node is reached, and none waits for itself");
    for (std::size_t i = 0; i < count; ++i)
        require(graph.nodes[i].waits_for == blockers[i], "each node knows what blocks it as a flow begins");
}

void check_atoms(const Graph& graph) {
    std::set<std::string> names;
    for (const auto& node : graph.nodes) {
        if (node.kind == NodeKind::entry || node.kind == NodeKind::end) continue;
        require(names.insert(node.name).second, "names of atoms are unique");
        require(node.controller == nowhere ||
                    (is_node(graph, node.controller) &&
                     graph.nodes[static_cast<std::size_t>(node.controller)].kind == NodeKind::retry),
                "controllers are retries");
    }
    for (const auto& parameter : graph.parameters) {
        require(is_node(graph, parameter.node), "parameters belong to nodes");
        for (const int provider : parameter.providers)
            require(is_node(graph, provider) && provider != parameter.node, "providers are others");
    }
    for (const auto& vote : graph.votes)
        require(is_node(graph, vote.target) && (vote.source == nowhere || is_node(graph, vote.source)),
                "votes are about nodes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    Graph graph;
    std::string written;
    try {
        const pawl::core::Json json = pawl::core::read_json(text);
        const pawl::core::saga::Item item = pawl::core::saga::read_structure(json);
        graph = pawl::core::saga::compile(item);
        written = pawl::core::saga::write(graph);
        if (!json.is(pawl::core::Json::Kind::object)) require(false, "a structure is an object");
        check_edges(graph);
        check_atoms(graph);
    } catch (const pawl::core::Error&) {
        return 0;
    }
    try {
        const pawl::core::Json again = pawl::core::read_json(written);
        require(again.find("nodes") != nullptr && again.find("nodes")->items.size() == graph.nodes.size(),
                "what is written has all nodes");
    } catch (const pawl::core::Error& error) {
        std::fprintf(stderr, "%s\n--- written:\n%s\n", error.what(), written.c_str());
        require(false, "what is written can be read");
    }
    return 0;
}
