// Pure C++; throws core::Error. What the compiler shares with the linter.
#pragma once

#include <vector>

#include "machine.hpp"

namespace pawl::core {

// Everything drawn that one column cannot hold: regions, forks, joins, in the order of their places.
std::vector<Error> find_concurrency(const Diagram& diagram);

}  // namespace pawl::core
