// May ereport; owns nothing. The outbox: the state changes of bindings with events, which consumers read in the order
// of commits.
#pragma once

#include "catalog/state_change.hpp"

namespace pawl {

// The tables of the outbox take turns; they are numbered from 1 to this.
inline constexpr int outbox_slots = 3;

// An outbox that is being written. It lives in the memory context current at the first event.
struct OutboxWriter;

// Appends a state change. Sets *writer if it is null. `entry` is the log entry of the state change, null without a log.
void append_event(OutboxWriter** writer, const StateChange& change, const LogEntry* entry);
void finish_outbox(OutboxWriter* writer);  // null: nothing was appended

// Must be called before the transaction commits or is prepared: assigns its place in the order of commits. Returns true
// if the transaction has events.
bool seal_outbox();

void forget_outbox() noexcept;                                              // end of transaction
void drop_events_of(SubTransactionId subtransaction) noexcept;              // rolled back
void reassign_events(SubTransactionId from, SubTransactionId to) noexcept;  // committed into its parent

}  // namespace pawl
