// May ereport; owns nothing. Rows that change partition: PostgreSQL shows them as a DELETE here and an INSERT there.
#pragma once

#include "guard/apply.hpp"

namespace pawl {

// A row that its BEFORE UPDATE trigger may be sending to another partition, and whether a row that is about to be
// inserted is that one.
void row_may_move(const Member* member, const Row& row);
bool row_is_moving(const Member* member, const Row& row);

// How a row went: PostgreSQL moved it, or a replica was told to delete it. That is either the end of the row, or its
// publisher moved it, or it moves because the replica has other partitions; the next row tells.
enum class Leaving { by_update, by_replication };

// The first half: the old version, as the AFTER DELETE trigger saw it.
void row_leaves(Member* member, const Row& row, Leaving how);

// The second half, if the row just inserted is one: judges old -> new and returns true.
bool row_arrives(Member* member, const Row& row);

// Rows that left and never arrived (a BEFORE INSERT trigger swallowed them, or they were deleted indeed) are deleted.
// Called when a query has fired its triggers.
void delete_vanished_rows();
void forget_partition_moves() noexcept;                                                  // end of transaction
void reassign_partition_moves(SubTransactionId mine, SubTransactionId parent) noexcept;  // released
void drop_partition_moves_of(SubTransactionId subtransaction) noexcept;                  // rolled back

}  // namespace pawl
