// May ereport; owns nothing. The outbox: the transitions of lifecycles with events, for consumers to read in the order
// of commits.
#pragma once

#include "catalog/state_change.hpp"

namespace pawl {

// The tables of the outbox take turns, 1 to this.
inline constexpr int outbox_slots = 3;

// An outbox that is being written; lives in the memory context current at the first event.
struct OutboxWriter;

// Appends a state change; *writer is made when it is null. `entry`: the state change's row in the log, null where there
// is none.
void append_event(OutboxWriter** writer, const StateChange& change, const LogEntry* entry);
void finish_outbox(OutboxWriter* writer);  // null: nothing was appended

// Before the transaction commits or is prepared: gives it its place in the order of commits. True when it has events.
bool seal_outbox();

void forget_outbox() noexcept;                                              // end of transaction
void drop_events_of(SubTransactionId subtransaction) noexcept;              // rolled back
void reassign_events(SubTransactionId from, SubTransactionId to) noexcept;  // committed into its parent

}  // namespace pawl
