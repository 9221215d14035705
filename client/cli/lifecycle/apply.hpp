// May throw. Carries out a plan, in one transaction.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <pqxx/pqxx>

#include "lifecycle/plan.hpp"

namespace pawl::cli {

struct ApplyOptions {
    std::string lock_timeout = "5s";  // how long a step waits for a lock of a table
    bool dry_run = false;             // undo all at the end
};

enum class Applied { done, undone, nothing_to_do, changed_since };

// Plans in a transaction that only reads, so that all is of one moment. lock_timeout: how long the count of rows waits
// for a table that another session has locked.
Plan plan_alone(pqxx::connection& connection, std::vector<Lifecycle>& lifecycles, const std::string& lock_timeout);

// Carries out `shown` if planning again, behind a lock that sessions which apply take in turn, gives the same steps in
// the same database. All steps are undone if one fails, or if something would be left to do after them; the error then
// names the step. `before_step` is called with the number of each step, from 0; `waiting` if another session applies.
Applied apply_plan(pqxx::connection& connection, std::vector<Lifecycle>& lifecycles, const Plan& shown,
                   const ApplyOptions& options, const std::function<void(std::size_t)>& before_step,
                   const std::function<void()>& waiting);

}  // namespace pawl::cli
