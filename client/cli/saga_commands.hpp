// May throw. The parts of `pawl saga`.
#pragma once

#include <string>

#include "commands.hpp"

namespace pawl::cli {

// A flow as the tree of its structure; each atom has its state, progress and failure.
nlohmann::ordered_json flow_as_json(pqxx::connection& connection, const std::string& flow);
std::string draw_flow(const nlohmann::ordered_json& flow, bool colours);

// Prints each state change until the flow rests. Returns 0 if it is SUCCESS, else 1.
int follow_flow(const Program& program, pqxx::connection& connection, const std::string& flow);

void add_saga_views(Program& program, Command& saga);  // list, show, follow, export, history
void add_saga_jobs(Program& program, Command& saga);   // post, jobs, cancel

}  // namespace pawl::cli
