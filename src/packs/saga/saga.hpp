// Pure C++; throws core::Error. Flows of tasks: the structure as it is written, and the graph that it is compiled to.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"

namespace pawl::core::saga {

enum class Shape { task, linear, unordered, graph };

// One parameter of an atom, and the name by which it is looked up.
struct Need {
    std::string parameter;
    std::string name;
    bool optional = false;
    std::string_view injected;  // JSON; empty: it is looked up
};

struct Retry {
    std::string name;
    std::vector<std::string> provides;
    std::vector<Need> needs;
    std::string_view written;  // the JSON it was read from
};

struct Link {
    std::string from;
    std::string to;
    std::string depth;         // of a decider: ALL, FLOW, NEIGHBORS, ATOM
    std::string_view decider;  // JSON; empty: none
};

// A task, or a flow of tasks and flows.
struct Item {
    Shape shape = Shape::task;
    std::string name;
    int priority = 0;
    std::vector<std::string> provides;
    std::vector<Need> needs;
    std::unique_ptr<Retry> retry;
    std::vector<Item> children;
    std::vector<Link> links;
    std::string_view written;
};

// Reads and checks one structure: shapes, keys, names. The result refers to the JSON, which must outlive it.
Item read_structure(const Json& json);

enum class NodeKind { entry, end, task, retry };
inline constexpr int nowhere = -1;

// Nodes are numbered in the order of the definition. A flow has an entry before its own nodes and an end behind them.
struct Node {
    NodeKind kind;
    std::string name;
    int controller = nowhere;  // the retry that decides about failures of this atom
    int waits_for = 0;         // edges that lead here from nodes that are not passed as a flow begins
    int priority = 0;
    bool votes = false;     // deciders decide whether it runs
    bool may_miss = false;  // what it requires may be absent, because all of its providers may be ignored
    std::vector<std::string> provides = {};
    std::string_view written = {};  // JSON; empty for entries and ends
};

struct Edge {
    int from;
    int to;
};

// One decider link, as it applies to one atom.
struct Vote {
    int target;
    int link;
    int source;  // nowhere: the link comes from a flow
    std::string depth;
    std::string_view decider;
};

// A parameter, with the nodes that may provide it, the preferred one first.
struct Parameter {
    int node;
    Need need;
    std::vector<int> providers;
};

struct Graph {
    std::vector<Node> nodes;
    std::vector<Edge> edges;
    std::vector<Vote> votes;
    std::vector<Parameter> parameters;
};

Graph compile(const Item& root);

// As JSON: {"nodes": [...], "edges": [...], "votes": [...], "parameters": [...]}.
std::string write(const Graph& graph);

}  // namespace pawl::core::saga
