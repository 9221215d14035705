// Pure C++; throws core::Error. What the compiler shares with the linter.
#pragma once

#include <cstddef>
#include <vector>

#include "machine.hpp"

namespace pawl::core {

// What is drawn that one column cannot hold: regions, forks, joins, in the order of their places; the first so many.
std::vector<Error> find_concurrency(const Diagram& diagram, std::size_t limit);

}  // namespace pawl::core
