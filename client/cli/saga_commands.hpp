// May throw. The parts of `pawl saga`.
#pragma once

#include <string>

#include "commands.hpp"

namespace pawl::cli {

// A flow as a tree of its structure, each atom with its state and what there is to say of it.
nlohmann::ordered_json flow_as_json(pqxx::connection& connection, const std::string& flow);
std::string draw_flow(const nlohmann::ordered_json& flow, bool colours);

// Each transition as it comes, until the flow rests; 0 if it is SUCCESS, else 1.
int follow_flow(const Program& program, pqxx::connection& connection, const std::string& flow);

void add_saga_views(Program& program, Command& saga);  // list, show, follow, export, history
void add_saga_jobs(Program& program, Command& saga);   // post, jobs, cancel

}  // namespace pawl::cli
