// May ereport where memory is short; owns nothing. What this transaction adds to the counters when it commits. See
// counters.hpp.
#pragma once

#include "catalog/state_change.hpp"
#include "observe/counters.hpp"

namespace pawl {

// Texts are compared by address: they belong to the machine, or are the names of pawl's own events.
void count_move(const Binding& binding, const Outcome& outcome);

// Adds the time for which the row was in the state that it left. The state change must have been counted.
void count_time(const StateChange& change, std::int64_t microseconds);

void commit_counts() noexcept;
void prepare_counts() noexcept;  // under the name given to note_gid
void note_gid(const char* gid) noexcept;

void forget_counts() noexcept;                                              // end of transaction
void drop_counts_of(SubTransactionId subtransaction) noexcept;              // rolled back
void reassign_counts(SubTransactionId from, SubTransactionId to) noexcept;  // committed into its parent

}  // namespace pawl
