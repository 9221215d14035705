// May throw. The policies of bindings as a file would say them.
#pragma once

#include "lifecycle/database.hpp"

namespace pawl::cli {

// All bindings of the database.
void read_bindings(pqxx::transaction_base& transaction, Present& present);

}  // namespace pawl::cli
