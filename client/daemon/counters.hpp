// May throw. What the server has counted, if pawl is preloaded: state changes by transition, rejections, latencies
// (pawl.counters()).
#pragma once

#include <pqxx/pqxx>

#include "exposition.hpp"

namespace pawl::daemon {

// Appends the families. Without preloading, only pawl_counters_preloaded.
void read_counters(pqxx::connection& connection, Exposition& out);

}  // namespace pawl::daemon
