// May throw. What the database contains now, for /metrics: queues, owners, timers, consumers, dead letters, counters.
#pragma once

#include <string>

#include <pqxx/pqxx>

namespace pawl::daemon {

// In the text format of Prometheus. Counts end at 10,000 rows, so that the cost does not grow with the tables.
std::string read_gauges(pqxx::connection& connection);

}  // namespace pawl::daemon
