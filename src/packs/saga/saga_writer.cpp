// Pure C++; throws nothing of its own. A graph as JSON; see saga.hpp.
#include "packs/saga/saga.hpp"

namespace pawl::core::saga {

namespace {

const char* name_of(NodeKind kind) {
    switch (kind) {
        case NodeKind::entry:
            return "entry";
        case NodeKind::end:
            return "end";
        case NodeKind::task:
            return "task";
        case NodeKind::retry:
            return "retry";
    }
    return "";
}

std::string number_or_null(int number) {
    return number == nowhere ? "null" : std::to_string(number);
}

const char* word(bool value) {
    return value ? "true" : "false";
}

// The JSON that an item was read from is passed on as it is, but what a flow holds is not repeated.
void write_node(std::string& out, const Node& node, std::size_t number) {
    out += "{\"node\":" + std::to_string(number) + ",\"kind\":\"" + name_of(node.kind) +
           "\",\"name\":" + quote_json(node.name) + ",\"controller\":" + number_or_null(node.controller) +
           ",\"waits_for\":" + std::to_string(node.waits_for) + ",\"priority\":" + std::to_string(node.priority) +
           ",\"votes\":" + word(node.votes) + ",\"may_miss\":" + word(node.may_miss) + ",\"written\":";
    out += node.written.empty() ? std::string_view("null") : node.written;
    out += '}';
}

void write_parameter(std::string& out, const Parameter& parameter) {
    out += "{\"node\":" + std::to_string(parameter.node) + ",\"parameter\":" + quote_json(parameter.need.parameter) +
           ",\"name\":" + quote_json(parameter.need.name) + ",\"optional\":" + word(parameter.need.optional) +
           ",\"is_injected\":" + word(!parameter.need.injected.empty()) + ",\"injected\":";
    out += parameter.need.injected.empty() ? std::string_view("null") : parameter.need.injected;
    out += ",\"providers\":[";
    for (std::size_t i = 0; i < parameter.providers.size(); ++i)
        out += (i > 0 ? "," : "") + std::to_string(parameter.providers[i]);
    out += "]}";
}

void write_vote(std::string& out, const Vote& vote) {
    out += "{\"target\":" + std::to_string(vote.target) + ",\"link\":" + std::to_string(vote.link) +
           ",\"source\":" + number_or_null(vote.source) + ",\"depth\":" + quote_json(vote.depth) +
           ",\"decider\":" + std::string(vote.decider) + "}";
}

template <typename List, typename Write>
void write_list(std::string& out, const char* key, const List& list, Write write) {
    out += std::string("\"") + key + "\":[";
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (i > 0) out += ',';
        write(list[i], i);
    }
    out += ']';
}

}  // namespace

std::string write(const Graph& graph) {
    std::string out = "{";
    write_list(out, "nodes", graph.nodes, [&](const Node& node, std::size_t i) { write_node(out, node, i); });
    write_list(out += ',', "edges", graph.edges, [&](const Edge& edge, std::size_t) {
        out += "[" + std::to_string(edge.from) + "," + std::to_string(edge.to) + "]";
    });
    write_list(out += ',', "votes", graph.votes, [&](const Vote& vote, std::size_t) { write_vote(out, vote); });
    write_list(out += ',', "parameters", graph.parameters,
               [&](const Parameter& parameter, std::size_t) { write_parameter(out, parameter); });
    return out += '}';
}

}  // namespace pawl::core::saga
