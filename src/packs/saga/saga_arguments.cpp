// Pure C++; throws nothing of its own. Who provides what to whom; see saga_graph.hpp.
#include <algorithm>
#include <tuple>

#include "packs/saga/saga_graph.hpp"

namespace pawl::core::saga {

namespace {

// Atoms that may come to be ignored: the targets of deciders, and all behind them.
std::vector<bool> ignorable_nodes(const Graph& graph) {
    std::vector<std::vector<int>> next(graph.nodes.size());
    for (const Edge& edge : graph.edges) next[edge.from].push_back(edge.to);
    std::vector<bool> reached(graph.nodes.size());
    std::vector<int> open;
    for (const Vote& vote : graph.votes) open.push_back(vote.target);
    while (!open.empty()) {
        const int node = open.back();
        open.pop_back();
        if (reached[node]) continue;
        reached[node] = true;
        open.insert(open.end(), next[node].begin(), next[node].end());
    }
    return reached;
}

bool leads_to(const Level& level, int from, int to) {
    std::vector<int> open{to};
    std::vector<bool> seen(level.flow->children.size());
    while (!open.empty()) {
        const int at = open.back();
        open.pop_back();
        if (at == from) return true;
        if (seen[at]) continue;
        seen[at] = true;
        for (const auto& [before, after] : level.links)
            if (after == at) open.push_back(before);
    }
    return false;
}

// How far a provider is from who asks, smaller is nearer: the flow that both are in, the sibling, the place in it. Not
// visible: none.
struct Distance {
    bool visible = false;
    std::tuple<int, int, int> order;
};

Distance distance(Place asking, Place provider, int node) {
    const bool is_retry = provider.child == own_retry;
    const Level* home = provider.level;
    while (asking.level != provider.level) {
        const bool up =
            provider.level == nullptr || (asking.level != nullptr && asking.level->depth >= provider.level->depth);
        Place& deeper = up ? asking : provider;
        deeper = {deeper.level->around, deeper.level->child};
    }
    const Level* level = asking.level;
    if (level == nullptr) return {};
    if (is_retry) {
        // a retry provides to its own scope, and after everything else of that flow
        const bool inside = level == home && asking.child != own_retry;
        return {inside, {-level->depth, 1, 0}};
    }
    if (asking.child == own_retry || asking.child == provider.child) return {};
    const bool linear = level->flow->shape == Shape::linear;
    const bool before = linear ? provider.child < asking.child
                               : level->flow->shape == Shape::graph && leads_to(*level, provider.child, asking.child);
    const int rank = linear ? provider.child : level->rank.empty() ? 0 : level->rank[provider.child];
    return {before, {-level->depth, 0, -rank * 1000000 - node % 1000000}};
}

}  // namespace

void find_providers(Graph& graph, const std::vector<Place>& places) {
    const std::vector<bool> ignorable = ignorable_nodes(graph);
    std::map<std::string, std::vector<int>> providers;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
        for (const std::string& name : graph.nodes[i].provides) providers[name].push_back(static_cast<int>(i));
    for (Parameter& parameter : graph.parameters) {
        const auto found = providers.find(parameter.need.name);
        if (found == providers.end() || !parameter.need.injected.empty()) continue;
        std::vector<std::pair<std::tuple<int, int, int>, int>> visible;
        for (const int node : found->second) {
            const Distance d = distance(places[parameter.node], places[node], node);
            if (d.visible) visible.emplace_back(d.order, node);
        }
        std::sort(visible.begin(), visible.end());
        bool sure = false;
        for (const auto& [order, node] : visible) {
            parameter.providers.push_back(node);
            if ((sure = !ignorable[node])) break;  // whoever comes behind is never asked
        }
        if (!sure && !parameter.providers.empty() && !parameter.need.optional)
            graph.nodes[parameter.node].may_miss = true;
    }
}

}  // namespace pawl::core::saga
