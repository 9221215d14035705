// Pure C++; throws core::Error. Collects what a diagram's text mentions into a Diagram.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "diagram.hpp"
#include "scanner.hpp"

namespace pawl::core {

class DiagramBuilder {
public:
    using Index = std::size_t;

    // Notes that a state is named here: creates a new state, and puts it into the open composite unless another has it.
    Index mention(const Name& name);
    // `state x` alone: Mermaid makes no state of it.
    void mention_weakly(const Name& name) { weak_.push_back(name); }

    void tag(Index state, std::string_view tag);
    void describe(Index state, std::string_view text);
    void set_kind(Index state, StateKind kind, Place where);
    void classify(const Name& state, const std::vector<std::string>& tags);
    void define_class(std::string_view name, std::string_view style);
    void set_title(std::string_view title) { diagram_.title = title; }
    void set_direction(std::string_view direction);

    void transition(const Name& from, const Name& to, std::string_view text);
    void region(Place where);

    void open(Index state, Place where);
    void close() { open_.pop_back(); }
    bool is_open() const { return !open_.empty(); }
    Place innermost_opened_at() const { return open_.back().where; }
    const std::string& innermost() const { return diagram_.states[open_.back().state].id; }

    Diagram finish();

private:
    static constexpr Index none = static_cast<Index>(-1);
    struct Block {
        Index state;
        Place where;
    };

    bool encloses(Index outer, Index inner, Place where) const;
    void claim(Index state, Place where);
    void check_depth() const;

    Diagram diagram_;
    std::unordered_map<std::string, Index> by_id_;
    std::vector<Index> parent_;
    std::vector<bool> warned_;  // by state: the warning that a second composite names it was given
    std::unordered_set<std::string> tagged_;
    std::unordered_map<std::string, std::size_t> classes_;
    std::vector<Block> open_;
    std::vector<Name> weak_;
    std::vector<std::pair<Name, std::vector<std::string>>> unclassified_;
};

}  // namespace pawl::core
