// May throw. What the server has counted where pawl is loaded with it: moves by arrow, refusals, latencies. See pawl.counters().
#pragma once

#include <pqxx/pqxx>

#include "exposition.hpp"

namespace pawl::daemon {

void read_counters(pqxx::connection& connection, Exposition& out);

}  // namespace pawl::daemon
