// Pure C++; throws core::Error. Compiles a structure to its graph: nodes, edges, and which decider applies to which
// atom; see saga.hpp.
#include <algorithm>
#include <set>

#include "core/error.hpp"
#include "packs/saga/saga_graph.hpp"

namespace pawl::core::saga {

namespace {

using Names = std::set<std::string>;

void insert(Names& names, const std::vector<std::string>& more) {
    names.insert(more.begin(), more.end());
}

// The names that an item provides to the items around it.
Names provided_by(const Item& item) {
    Names names;
    insert(names, item.provides);
    if (item.retry) insert(names, item.retry->provides);
    for (const Item& child : item.children) names.merge(provided_by(child));
    return names;
}

// The names that an item requires of the items around it.
Names required_by(const Item& item) {
    Names names;
    for (const Need& need : item.needs)
        if (!need.optional) names.insert(need.name);
    if (item.shape == Shape::task) return names;
    Names inside;
    if (item.retry) insert(inside, item.retry->provides);
    if (item.shape == Shape::graph)
        for (const Item& child : item.children) inside.merge(provided_by(child));
    for (const Item& child : item.children) {
        for (const std::string& name : required_by(child))
            if (!inside.contains(name)) names.insert(name);
        if (item.shape == Shape::linear) inside.merge(provided_by(child));
    }
    if (item.retry)
        for (const Need& need : item.retry->needs) names.insert(need.name);
    return names;
}

int child_named(const Item& flow, const std::string& name) {
    for (std::size_t i = 0; i < flow.children.size(); ++i)
        if (flow.children[i].name == name) return static_cast<int>(i);
    throw Error("flow \"" + flow.name + "\" has no item \"" + name + "\" to link", {}, {},
                "links must name children of their flow");
}

// Which child leads to which: the links, and edges from the provider of a name to the items that require it.
std::vector<std::pair<int, int>> child_links(const Item& flow) {
    std::vector<std::pair<int, int>> links;
    for (const Link& link : flow.links) links.emplace_back(child_named(flow, link.from), child_named(flow, link.to));
    std::map<std::string, std::vector<int>> providers;
    for (std::size_t i = 0; i < flow.children.size(); ++i)
        for (const std::string& name : provided_by(flow.children[i])) providers[name].push_back(static_cast<int>(i));
    for (std::size_t i = 0; i < flow.children.size(); ++i)
        for (const std::string& name : required_by(flow.children[i])) {
            const auto found = providers.find(name);
            if (found == providers.end() ||
                (flow.retry && std::count(flow.retry->provides.begin(), flow.retry->provides.end(), name) > 0))
                continue;
            std::vector<int> others = found->second;
            std::erase(others, static_cast<int>(i));
            if (others.size() > 1)
                throw Error("\"" + name + "\", which \"" + flow.children[i].name +
                                "\" requires, is provided by several items of flow \"" + flow.name + "\"",
                            {},
                            "They are \"" + flow.children[others[0]].name + "\" and \"" +
                                flow.children[others[1]].name + "\".");
            for (const int other : others) links.emplace_back(other, static_cast<int>(i));
        }
    std::sort(links.begin(), links.end());
    links.erase(std::unique(links.begin(), links.end()), links.end());
    return links;
}

// The children, each after those that lead to it; otherwise in the order of the definition.
std::vector<int> child_order(const Item& flow, const std::vector<std::pair<int, int>>& links) {
    std::vector<int> waits(flow.children.size(), 0);
    std::vector<std::vector<int>> next(flow.children.size());
    for (const auto& [from, to] : links) {
        ++waits[to];
        next[from].push_back(to);
    }
    std::set<int> ready;
    for (std::size_t i = 0; i < waits.size(); ++i)
        if (waits[i] == 0) ready.insert(static_cast<int>(i));
    std::vector<int> order;
    while (!ready.empty()) {
        const int i = *ready.begin();
        ready.erase(ready.begin());
        order.push_back(i);
        for (const int to : next[i])
            if (--waits[to] == 0) ready.insert(to);
    }
    if (order.size() == flow.children.size()) return order;
    std::string stuck;
    for (std::size_t i = 0; i < waits.size(); ++i)
        if (waits[i] > 0) stuck += (stuck.empty() ? "\"" : ", \"") + flow.children[i].name + "\"";
    throw Error("the items of flow \"" + flow.name + "\" have a dependency cycle", {},
                "On a cycle, or dependent on one, are " + stuck + ".");
}

class Compiler {
public:
    Graph graph;
    std::vector<Place> places;  // of each node

    void compile(const Item& root) {
        if (root.shape != Shape::task) {
            add_flow(root, nullptr, 0, nowhere);
        } else {
            const int entry = add_node({.kind = NodeKind::entry, .name = root.name}, nullptr, 0);
            const auto [first, last] = add_task(root, nullptr, 0, nowhere);
            const int end = add_node({.kind = NodeKind::end, .name = root.name}, nullptr, 0);
            join(entry, first);
            join(last, end);
        }
        count_waits();
    }

    const std::vector<std::unique_ptr<Level>>& all_levels() const { return levels; }

private:
    struct Ends {
        int first;
        int last;
    };

    // The nodes that are passed as a flow begins, because only entries and ends are before them, block none.
    void count_waits() {
        std::vector<std::vector<int>> behind(graph.nodes.size());
        for (const Edge& edge : graph.edges) {
            ++graph.nodes[edge.to].waits_for;
            behind[edge.from].push_back(edge.to);
        }
        const auto is_passed = [&](int node) {
            const NodeKind kind = graph.nodes[node].kind;
            return (kind == NodeKind::entry || kind == NodeKind::end) && graph.nodes[node].waits_for == 0;
        };
        std::vector<int> passed;
        for (int node = 0; node < static_cast<int>(graph.nodes.size()); ++node)
            if (is_passed(node)) passed.push_back(node);
        for (std::size_t i = 0; i < passed.size(); ++i)
            for (const int next : behind[passed[i]]) {
                --graph.nodes[next].waits_for;
                if (is_passed(next)) passed.push_back(next);
            }
    }

    int add_node(Node node, const Level* level, int child) {
        graph.nodes.push_back(std::move(node));
        places.push_back({level, child});
        return static_cast<int>(graph.nodes.size()) - 1;
    }

    void join(int from, int to) { graph.edges.push_back({from, to}); }

    void name_atom(const std::string& name) {
        if (!names.insert(name).second)
            throw Error("duplicate atom name \"" + name + "\"", {}, "Atoms are matched by name when a flow continues.");
    }

    Ends add_task(const Item& task, const Level* level, int child, int controller) {
        name_atom(task.name);
        const int node = add_node({.kind = NodeKind::task,
                                   .name = task.name,
                                   .controller = controller,
                                   .priority = task.priority,
                                   .provides = task.provides,
                                   .written = task.written},
                                  level, child);
        for (const Need& need : task.needs) graph.parameters.push_back({node, need, {}});
        return {node, node};
    }

    int add_retry(const Retry& retry, const Level* level, int controller) {
        name_atom(retry.name);
        const int node = add_node({.kind = NodeKind::retry,
                                   .name = retry.name,
                                   .controller = controller,
                                   .provides = retry.provides,
                                   .written = retry.written},
                                  level, own_retry);
        for (const Need& need : retry.needs) graph.parameters.push_back({node, need, {}});
        return node;
    }

    Ends add_flow(const Item& flow, const Level* around, int child, int controller) {
        levels.push_back(std::make_unique<Level>());
        Level& level = *levels.back();
        level.flow = &flow;
        level.around = around;
        level.child = child;
        level.depth = around == nullptr ? 0 : around->depth + 1;
        const int entry = add_node({.kind = NodeKind::entry, .name = flow.name}, around, child);
        int start = entry;
        if (flow.retry) {
            start = add_retry(*flow.retry, &level, controller);
            join(entry, start);
            controller = start;
        }
        std::vector<Ends> ends;
        for (std::size_t i = 0; i < flow.children.size(); ++i) {
            const Item& item = flow.children[i];
            ends.push_back(item.shape == Shape::task ? add_task(item, &level, static_cast<int>(i), controller)
                                                     : add_flow(item, &level, static_cast<int>(i), controller));
        }
        const int end = add_node({.kind = NodeKind::end, .name = flow.name}, around, child);
        connect(level, start, ends, end);
        return {entry, end};
    }

    void connect(Level& level, int start, const std::vector<Ends>& ends, int end) {
        const Item& flow = *level.flow;
        if (ends.empty()) return join(start, end);
        if (flow.shape == Shape::linear) {
            for (const Ends& item : ends) {
                join(start, item.first);
                start = item.last;
            }
            return join(start, end);
        }
        if (flow.shape == Shape::graph) level.links = child_links(flow);
        const std::vector<int> order = child_order(flow, level.links);
        level.rank.resize(ends.size());
        for (std::size_t i = 0; i < order.size(); ++i) level.rank[order[i]] = static_cast<int>(i);
        std::vector<bool> led(ends.size()), leads(ends.size());
        for (const auto& [from, to] : level.links) {
            join(ends[from].last, ends[to].first);
            leads[from] = led[to] = true;
        }
        for (std::size_t i = 0; i < ends.size(); ++i) {
            if (!led[i]) join(start, ends[i].first);
            if (!leads[i]) join(ends[i].last, end);
        }
        add_votes(flow, ends);
    }

    // The first atoms behind an entry: its retry, or those of its items that depend on no other.
    void first_atoms(int node, std::vector<int>& atoms) const {
        if (graph.nodes[node].kind == NodeKind::task || graph.nodes[node].kind == NodeKind::retry)
            return atoms.push_back(node);
        if (graph.nodes[node].kind == NodeKind::end) return;
        for (const Edge& edge : graph.edges)
            if (edge.from == node) first_atoms(edge.to, atoms);
    }

    void add_votes(const Item& flow, const std::vector<Ends>& ends) {
        for (std::size_t i = 0; i < flow.links.size(); ++i) {
            const Link& link = flow.links[i];
            if (link.decider.empty()) continue;
            const Ends& from = ends[child_named(flow, link.from)];
            std::vector<int> targets;
            first_atoms(ends[child_named(flow, link.to)].first, targets);
            for (const int target : targets) {
                graph.nodes[target].votes = true;
                graph.votes.push_back({target, static_cast<int>(graph.votes.size()),
                                       from.first == from.last ? from.first : nowhere, link.depth, link.decider});
            }
        }
    }

    std::vector<std::unique_ptr<Level>> levels;
    std::set<std::string> names;
};

}  // namespace

Graph compile(const Item& root) {
    Compiler compiler;
    compiler.compile(root);
    find_providers(compiler.graph, compiler.places);
    return std::move(compiler.graph);
}

}  // namespace pawl::core::saga
