// May throw. A plan: what is to be done so that a database has the lifecycles of a folder.
#pragma once

#include <string>
#include <vector>

#include "core/diff.hpp"
#include "lifecycle/database.hpp"

namespace pawl::cli {

struct Lock {
    std::string table;
    std::string mode;  // as LOCK TABLE has it: at most this
};

struct Step {
    std::string what;                  // define, release, enforce, upgrade, or another function of pawl
    std::string title;                 // a line for people
    std::vector<std::string> details;  // more of them
    std::string sql;                   // one statement that does it, and does nothing if it is done already
    std::vector<Lock> locks{};
    bool reads_table = false;
    bool removes = false;  // states, bindings, logs or rules go: asked for first
};

// A machine whose diagram is new or another one.
struct MachineChange {
    std::string machine, file;
    int from_version = 0;  // 0: it is new
    std::vector<core::Change> changes;
};

struct Plan {
    std::string database;
    std::string fingerprint;
    std::vector<MachineChange> machines;
    std::vector<Step> steps;            // in order
    std::vector<std::string> problems;  // while there are any, nothing is applied
    std::vector<std::string> notes;
    std::vector<std::string> in_place;  // bindings that are as their file says

    bool removes() const;
};

// Compares. Reads tables only where rows could stand in states that a machine does not have.
Plan make_plan(pqxx::transaction_base& transaction, std::vector<Lifecycle>& lifecycles);

// As --json prints it, and as --out saves it with the files it was made of.
Json plan_json(const Plan& plan);

// For people, in colours or without.
std::string plan_text(const Plan& plan, bool colours);

}  // namespace pawl::cli
