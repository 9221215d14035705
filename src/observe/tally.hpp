// May ereport where memory is short; owns nothing. What this transaction adds to the counters when it commits. See counters.hpp.
#pragma once

#include "observe/counters.hpp"
#include "log/journal.hpp"

namespace pawl {

// A row leaves the owned states by its owner's doing, or by a timer or an operator: not by the loss of its lease.
inline constexpr std::uint8_t arrow_gives_up = 32;

// What an arrow counts as. `taken_away`: the row was taken from its owner.
std::uint8_t counted_roles(const Attachment& attachment, int arrow, bool taken_away);

// Texts are compared by their places: those of the machine, or of pawl's own events.
void count_move(const Attachment& attachment, const Verdict& verdict);

// The hop has been counted; this is how long the row was in the state that it left.
void count_time(const Hop& hop, std::int64_t microseconds);

void commit_counts() noexcept;
void prepare_counts() noexcept;  // under the name told by note_gid
void note_gid(const char* gid) noexcept;

void forget_counts() noexcept;                                             // end of transaction
void drop_counts_of(SubTransactionId subtransaction) noexcept;             // rolled back
void reassign_counts(SubTransactionId from, SubTransactionId to) noexcept;  // committed into its parent

}  // namespace pawl
