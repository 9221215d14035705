// Pure C++; throws. What compiling a flow remembers of its structure, for finding who provides what.
#pragma once

#include <utility>

#include "packs/saga/saga.hpp"

namespace pawl::core::saga {

// One flow of the structure.
struct Level {
    const Item* flow = nullptr;
    const Level* around = nullptr;
    int child = 0;  // which child of the flow around it is
    int depth = 0;
    std::vector<std::pair<int, int>> links;  // between its children
    std::vector<int> rank;                   // of its children in an order that follows the links; empty: a linear flow
};

inline constexpr int own_retry = -1;

// Where an atom stands: in which flow, as which child, or as its retry.
struct Place {
    const Level* level;
    int child;
};

// Fills in the providers of each parameter, and which nodes may miss one.
void find_providers(Graph& graph, const std::vector<Place>& places);

}  // namespace pawl::core::saga
