// May throw. The parts of `pawl bulk`.
#pragma once

#include <string>

#include "commands.hpp"

namespace pawl::cli {

void add_bulk_submit(Program& program, Command& bulk);

// Its row of pawl_bulk.status. Throws Error P0002: there is no such operation.
sql::Rows operation_status(pqxx::connection& connection, const std::string& operation);
void print_operation(const Program& program, pqxx::connection& connection, const std::string& operation);

// Prints progress until the operation has ended. Returns 0 if it is Completed, else 1.
int follow_operation(const Program& program, pqxx::connection& connection, const std::string& operation);

}  // namespace pawl::cli
