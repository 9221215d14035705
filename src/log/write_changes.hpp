// May ereport; owns nothing. Writes pending state changes to one log, each after the entry of its predecessor.
#pragma once

#include "events/outbox.hpp"
#include "log/make_change.hpp"

namespace pawl {

// Whether a state change must wait regardless of its log. An entry written in another subtransaction would vanish if
// that is rolled back. While outer statements have rows to validate, the newest entry may have the right state by
// chance, because a row can return to a state.
bool cannot_be_written(const StateChange& change);

// Writes the state changes of one log that need not wait (`all`: also those that wait); appends the others, in order,
// to `rest`. `notes`: notes what it writes for statements that are running (predecessor.hpp).
void write_log(Oid table, StateChange* changes, OutboxWriter** outbox, StateChange** rest, bool all, bool notes);

// How many histories of rows that were there before their log this session has begun.
uint64 histories_begun() noexcept;

// Writes state changes of bindings that have events but no log. Without a log a missing predecessor cannot be detected,
// so a state change waits as long as one is possible.
void write_events(StateChange* changes, OutboxWriter** outbox, StateChange** rest, bool all, bool notes);

}  // namespace pawl
