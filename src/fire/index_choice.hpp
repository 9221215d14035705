// May ereport; owns nothing. Which index the statements of claims, timers and leases walk. The planner would at times
// rather take the primary key (what equals a constant needs no order), and read all of the table that lies behind a
// row.
#pragma once

#include "fire/plans.hpp"

namespace pawl {

// While set, plans read the table of this binding by no other index than the one that pawl made for the order. Null: as
// they like.
void choose_index(const Binding* binding, Order order) noexcept;

void register_index_choice();

}  // namespace pawl
