// May throw. The duties of the installed extensions and bindings, found in the catalog: a new pack needs no change
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
    std::string statement;  // $1 is the batch; returns done, and when to call again in ms (null: any time)
    std::string oid = {};   // $2 and $3, if the duty is of one binding
    std::string state_column = {};
    std::string relation = {};             // whose wake-ups announce its work; empty: any event
    bool plain = false;                    // a [[duty]] of the user, without parameters
    bool once = false;                     // done > 0 does not mean that there is more; a next time of now does
    std::chrono::milliseconds longest{0};  // longest wait; 0: longest_poll
};

// Packs may have duties of one name, and a table two bindings.
bool is_same(const Duty& one, const Duty& other) noexcept;

struct Report {
    std::int64_t done = 0;
    std::optional<std::chrono::milliseconds> next = std::nullopt;
};

enum class Kind { scheduling, sql_steps };

std::vector<Duty> find_duties(pqxx::connection& connection, const Settings& settings, Kind kind);

// Runs the duty once, in one transaction. Throws Error.
Report run_duty(pqxx::connection& connection, const Duty& duty, int batch);

// Why the versions of the installed extensions do not match this program; empty: they match.
std::string misfit_of(pqxx::connection& connection);

}  // namespace pawl::daemon
