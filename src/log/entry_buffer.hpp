// May ereport; owns nothing. The entry buffer: state changes that are not yet written to the logs and the outbox.
#pragma once

#include "log/make_change.hpp"

namespace pawl {

// Whether this session writes the state changes of the binding to a log or the outbox. False while replicating into a
// log that is itself replicated.
bool writes_entries(const Binding& binding);

// Adds the state changes that one write makes of a row, n of them in their order, to the entry buffer; reads the key
// from the slot. `overrides`: attribution by a function's arguments; may be null.
void buffer_changes(const Binding& binding, TupleTableSlot* row, const Outcome* outcomes, int n,
                    const AttributionOverride* overrides);

// Adds the beginning of the history of a row that was there before its log, in this state. It is written unless the
// history has begun meanwhile.
void buffer_beginning(const Binding& binding, TupleTableSlot* row, text* state);

// Writes pending entries. `all`: including those that wait for a predecessor; before the transaction ends. `crowded`:
// in the middle of a statement, because there are many.
void write_pending_entries(bool all, bool crowded = false);
bool entry_buffer_is_empty() noexcept;
bool has_pending_entry(const StateChange& of_row);  // of the row that this state change is of, and in its log
bool entry_buffer_is_writing() noexcept;

void clear_entry_buffer() noexcept;                                          // end of transaction
void drop_changes_of(SubTransactionId subtransaction) noexcept;              // the subtransaction was rolled back
void reassign_changes(SubTransactionId from, SubTransactionId to) noexcept;  // the subtransaction was committed

}  // namespace pawl
