// May ereport where memory is short; owns nothing. What this transaction adds to the counters when it commits. See
// counters.hpp.
#pragma once

#include "catalog/state_change.hpp"
#include "observe/counters.hpp"

namespace pawl {

// Texts are compared by their places: those of the machine, or of pawl's own events.
void count_move(const Binding& binding, const Outcome& outcome);

// The state change has been counted; this is how long the row was in the state that it left.
void count_time(const StateChange& change, std::int64_t microseconds);

void commit_counts() noexcept;
void prepare_counts() noexcept;  // under the name told by note_gid
void note_gid(const char* gid) noexcept;

void forget_counts() noexcept;                                              // end of transaction
void drop_counts_of(SubTransactionId subtransaction) noexcept;              // rolled back
void reassign_counts(SubTransactionId from, SubTransactionId to) noexcept;  // committed into its parent

}  // namespace pawl
