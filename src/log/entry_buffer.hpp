// May ereport; owns nothing. The entry buffer: state changes that are not yet written to the logs and the outbox.
#pragma once

#include "catalog/state_change.hpp"
#include "session/context.hpp"

namespace pawl {

// Whether this session writes the state changes of the binding to a log or the outbox. False while replicating into a
// log that is itself replicated.
bool writes_entries(const Binding& binding);

// Adds a state change to the entry buffer; reads the key from the slot. `overrides`: attribution by a function's
// arguments; may be null.
void buffer_change(const Binding& binding, TupleTableSlot* row, const Outcome& outcome,
                   const AttributionOverride* overrides);

// Makes the same state change in a memory context, without adding it to the entry buffer.
StateChange* make_change_in(MemoryContext context, const Binding& binding, TupleTableSlot* row, const Outcome& outcome,
                            const AttributionOverride* overrides);

// Writes pending entries. `all`: including those that wait for a predecessor; before the transaction ends.
void write_pending_entries(bool all);
bool entry_buffer_is_empty() noexcept;
bool entry_buffer_is_writing() noexcept;

void clear_entry_buffer() noexcept;                                          // end of transaction
void drop_changes_of(SubTransactionId subtransaction) noexcept;              // the subtransaction was rolled back
void reassign_changes(SubTransactionId from, SubTransactionId to) noexcept;  // the subtransaction was committed

}  // namespace pawl
