// May ereport where memory is short; owns nothing. Whether the log has the state change of a row that precedes another
// one in the same transaction. AFTER triggers of statements that are still running may have to make it, and an INSERT
// into the log writes its own last.
#pragma once

#include "log/layout.hpp"

namespace pawl {

// Whether the newest entry ends in the state in which the state change begins.
bool follows(const StateChange& change, const NewestEntry& newest);

// Whether a row that was inserted by a running statement is perhaps not in the log yet. The newest entry can be that of
// an earlier row with this key, which the statement has deleted, and have the right state by chance.
bool follows_insertion(const StateChange& change, uint32 hash);

// A state change was written. If its statement is still running, others can follow it in the same statement.
void note_written(const StateChange& change, uint32 hash);

// A row was written without a state change, so that later state changes do not see which command made it before.
// The row is its old version, with the columns of the binding.
void note_other_write(const Binding& binding, TupleTableSlot* row, HeapTuple tuple);

// An AFTER trigger has made known that its statement has written this version of a row without a state change.
void note_no_change(const Binding& binding, TupleTableSlot* row, HeapTuple tuple);

// A state change that an INSERT into the log asks for, until that has formed its entry.
void begin_request(const StateChange& change);
void end_request() noexcept;
bool follows_request(const StateChange& change, uint32 hash);

// Rejects the innermost request if its entry would not follow the newest one (55000). `pending`: other state changes of
// the row are in the entry buffer.
void require_predecessor(const StateChange& change, const NewestEntry& newest, bool pending);

void forget_written() noexcept;                                               // no statement is running
void forget_predecessors() noexcept;                                          // end of transaction
void drop_requests_of(SubTransactionId subtransaction) noexcept;              // the subtransaction was rolled back
void reassign_requests(SubTransactionId from, SubTransactionId to) noexcept;  // the subtransaction was committed

}  // namespace pawl
