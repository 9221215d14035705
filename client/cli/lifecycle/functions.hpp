// May throw. The functions that guards and effects name: whether the server has them, and for the rows of a table.
#pragma once

#include "lifecycle/database.hpp"

namespace pawl::cli {

// Fills present.functions and present.unfit.
void read_functions(pqxx::transaction_base& transaction, const std::vector<Lifecycle>& lifecycles, Present& present);

// What pawl.define would store of each transition (guards, effects, notes), as PresentMachine::calls has it; nothing if
// it would reject the machine, because of a name in present.functions that is empty.
std::optional<Json> calls_of(const Lifecycle& lifecycle, const Present& present);

// Guards and effects that name no function, each with where it is drawn.
std::vector<std::pair<std::string, core::Place>> missing_functions(const Lifecycle& lifecycle, const Present& present);

}  // namespace pawl::cli
