// May ereport; owns nothing. Rows that change partition: triggers see a DELETE in one partition and an INSERT in the
// other.
#pragma once

#include "guard/apply.hpp"

namespace pawl {

// Notes a row that may be about to move to another partition, from its BEFORE UPDATE trigger; and whether a row to be
// inserted is that row.
void row_may_move(const Member* member, const Row& row);
bool row_is_moving(const Member* member, const Row& row);

// How a row left. by_update: PostgreSQL moves it. by_replication: a replica deletes it, which is a deletion or half of
// a partition change; the next insertion tells.
enum class Leaving { by_update, by_replication };

// The first half of a partition change, from the AFTER DELETE trigger.
void row_leaves(Member* member, const Row& row, Leaving how);

// If the inserted row is the second half of a partition change, validates and records the state change and returns
// true.
bool row_arrives(Member* member, const Row& row);

// Treats rows that left and did not arrive as deleted: a BEFORE INSERT trigger skipped them, or a replica deleted them.
// Called after a query has fired its triggers.
void delete_vanished_rows();
void forget_partition_moves() noexcept;                                                  // end of transaction
void reassign_partition_moves(SubTransactionId mine, SubTransactionId parent) noexcept;  // released
void drop_partition_moves_of(SubTransactionId subtransaction) noexcept;                  // rolled back

}  // namespace pawl
