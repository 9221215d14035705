// Pure C++; throws only bad_alloc. What one column cannot hold of a diagram; for the compiler and the linter.
#pragma once

#include <cstddef>
#include <vector>

#include "diagram.hpp"

namespace pawl::core {

// Finds regions, forks and joins. Returns at most `limit` errors, ordered by place.
std::vector<Error> find_concurrency(const Diagram& diagram, std::size_t limit);

}  // namespace pawl::core
