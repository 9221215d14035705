// May throw. What the database holds at this moment, for /metrics: queues, owners, timers, consumers, dead letters,
// counters.
#pragma once

#include <string>

#include <pqxx/pqxx>

namespace pawl::daemon {

// In the text format of Prometheus. One transaction; counts end at 10,000 rows, so it costs the same however much there
// is.
std::string read_gauges(pqxx::connection& connection);

}  // namespace pawl::daemon
