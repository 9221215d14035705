// May ereport; owns nothing. The entry buffer: state changes on their way into the logs.
#pragma once

#include "catalog/state_change.hpp"
#include "session/context.hpp"

namespace pawl {

// Whether state changes of the binding are written anywhere by this session: to a log, or to the outbox.
bool keeps_record(const Binding& binding);

// Puts a state change in the entry buffer; the key is read from the slot. `said`: what the caller of a function says
// over the settings; may be null.
void buffer_change(const Binding& binding, TupleTableSlot* row, const Outcome& outcome,
                   const AttributionOverride* said);

// The same state change, made in a memory context and not put in the entry buffer.
StateChange* make_change_in(MemoryContext context, const Binding& binding, TupleTableSlot* row, const Outcome& outcome,
                            const AttributionOverride* said);

// Writes what is waiting. `all`: state changes that still wait for a predecessor too (before the transaction ends).
void write_pending_entries(bool all);
bool entry_buffer_is_empty() noexcept;
bool entry_buffer_is_writing() noexcept;

void clear_entry_buffer() noexcept;                                          // end of transaction
void drop_changes_of(SubTransactionId subtransaction) noexcept;              // rolled back
void reassign_changes(SubTransactionId from, SubTransactionId to) noexcept;  // committed into its parent

}  // namespace pawl
