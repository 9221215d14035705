// Pure C++; throws core::Error. What the compiler shares with the linter.
#pragma once

#include <cstddef>
#include <vector>

#include "machine.hpp"

namespace pawl::core {

// Finds what one column cannot hold: regions, forks and joins. Returns at most `limit` errors, ordered by place.
std::vector<Error> find_concurrency(const Diagram& diagram, std::size_t limit);

}  // namespace pawl::core
