// May throw. The duties that the database offers, found in its catalog: a pack that is installed later needs nothing
// here.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <pqxx/pqxx>

#include "poll_interval.hpp"
#include "settings.hpp"

namespace pawl::daemon {

struct Duty {
    std::string name;       // reap pawl_dag.steps
    std::string statement;  // $1 is the batch; returns done and, in milliseconds, when to come back (null: whenever)
    std::string oid = {};   // $2 and $3, where the duty is one lifecycle's
    std::string state_column = {};
    std::string relation = {};             // where its work comes in; empty: anywhere
    bool plain = false;                    // a statement of the user's, without parameters
    bool once = false;                     // done > 0 does not mean that there is more; a next time that has come does
    std::chrono::milliseconds longest{0};  // 0: as the settings say
};

struct Report {
    std::int64_t done = 0;
    std::optional<std::chrono::milliseconds> next = std::nullopt;
};

enum class Kind { scheduling, sql_steps };

std::vector<Duty> find_duties(pqxx::connection& connection, const Settings& settings, Kind kind);

// One transaction.
Report run_duty(pqxx::connection& connection, const Duty& duty, int batch);

// Why the installed extensions are not of this program's version; empty: they are.
std::string misfit_of(pqxx::connection& connection);

}  // namespace pawl::daemon
