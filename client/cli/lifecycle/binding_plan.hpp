// May throw. The part of a plan that is about one table.
#pragma once

#include "lifecycle/plan.hpp"

namespace pawl::cli {

// What a plan of a table knows and adds to.
struct PlanContext {
    pqxx::transaction_base& transaction;
    const Lifecycle& lifecycle;
    const Present& present;
    bool new_version;  // the machine gets one
    Plan& plan;
};

void plan_table(PlanContext& context, const TableEntry& entry);

void plan_release(const PresentBinding& binding, const std::string& reason, Plan& plan);

// Policies, as steps: `now` are those of the database and become `wanted`. First those that must go before the machine
// of a binding changes, then the others.
void plan_weakening(PlanContext& context, const TableEntry& entry, const std::string& table, bool upgrading,
                    const Settings& wanted, Settings& now);
void plan_setting(PlanContext& context, const TableEntry& entry, const std::string& table, const Settings& wanted,
                  Settings& now);

// The beginning of a call for a table, to which arguments are added: select pawl.f('t', state_column => 's'
std::string call_of(const std::string& function, const std::string& table, const std::string& column);

}  // namespace pawl::cli
