// May throw (out of memory). Draws the steps of a task as a tree: each step below its deepest parent, with its other
// parents named.
#pragma once

#include <string>
#include <vector>

namespace pawl::cli {

struct TreeStep {
    std::string name;
    std::string state;
    std::vector<std::string> parents;
    std::string note;  // printed after the name: attempts, errors
};

// Steps in any order. Steps in a cycle, or with unknown parents, are roots. colours: with ANSI sequences.
std::string draw_tree(const std::vector<TreeStep>& steps, bool colours);

// The sign of a state, one column wide.
const char* sign_of(const std::string& state);

// text in the colour of a state
std::string coloured(const std::string& state, const std::string& text, bool colours);

}  // namespace pawl::cli
