// Mermaid's own cases: test/conformance/mermaid.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "same.hpp"
#include "support.hpp"

namespace pawl::test {
namespace {

using nlohmann::json;

json states_of(const core::Diagram& diagram) {
    json result = json::object();
    static constexpr const char* kinds[] = {"default", "choice", "fork", "join"};
    for (const core::DrawnState& state : diagram.states) {
        result[state.id] = {{"kind", kinds[static_cast<int>(state.kind)]},
                            {"parent", state.parent.empty() ? json() : json(state.parent)},
                            {"composite", state.composite}};
    }
    return result;
}

json relations_of(const core::Diagram& diagram) {
    json result = json::array();
    for (const core::DrawnTransition& transition : diagram.transitions) {
        const json in = transition.in.empty() ? json() : json(transition.in);
        result.push_back({{"from", transition.from}, {"to", transition.to}, {"label", transition.text}, {"in", in}});
    }
    return result;
}

// The construct that one column cannot hold and that stands first in the text: region, fork or join; empty: none.
std::string first_concurrent(const core::Diagram& diagram) {
    std::map<std::pair<int, int>, std::string> found;
    for (const core::Region& region : diagram.regions) found[{region.line, region.column}] = "region";
    for (const core::DrawnState& state : diagram.states) {
        const bool fork = state.kind == core::StateKind::fork;
        if (!fork && state.kind != core::StateKind::join) continue;
        found[{state.kind_where.line, state.kind_where.column}] = fork ? "fork" : "join";
    }
    return found.empty() ? "" : found.begin()->second;
}

void check_case(const json& each) {
    const std::string text = each.at("text");
    if (!each.at("parses").get<bool>()) {
        const core::Error error = error_of([&] { core::read_mermaid(text); });
        EXPECT_EQ(error.code, "syntax_error");
        EXPECT_GT(error.where.line, 0);
        EXPECT_GT(error.where.column, 0);
        return;
    }
    const core::Diagram diagram = core::read_mermaid(text);
    json states = each.at("states");
    for (json& state : states) {
        if (!state.contains("composite")) state["composite"] = false;
    }
    EXPECT_EQ(states_of(diagram), states);
    EXPECT_EQ(relations_of(diagram), each.at("relations"));
    EXPECT_EQ(!diagram.regions.empty(), each.at("has_regions").get<bool>());

    const core::Diagram again = core::read_mermaid(core::write_mermaid(diagram));
    EXPECT_EQ(difference(diagram, again), "");

    const std::string concurrent = first_concurrent(diagram);
    if (concurrent.empty()) return;
    const core::Error error = error_of([&] { core::compile(diagram); });
    EXPECT_EQ(error.code, concurrent);
    EXPECT_GT(error.where.line, 0);
}

TEST(Conformance, EveryCaseIsReadAsMermaidReadsIt) {
    const json cases = json::parse(file(root() / "test" / "conformance" / "mermaid" / "cases.json"));
    ASSERT_EQ(cases.size(), 86U);
    for (std::size_t i = 0; i < cases.size(); ++i) {
        SCOPED_TRACE("case " + std::to_string(i) + ":\n" + cases[i].at("text").get<std::string>());
        ASSERT_NO_THROW(check_case(cases[i]));
    }
}

}  // namespace
}  // namespace pawl::test
