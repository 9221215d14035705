// Does not throw; may ereport where memory is short. The ends of logs as this session last wrote them: a worker that
// completes what it has claimed need not look for the entry before.
#pragma once

#include "log/writer.hpp"

namespace pawl {

// Only logs that are added to and never changed: a stored most_recent needs the entry itself, a hash chain its hash.
bool remembers_newest(const LogLayout& layout) noexcept;

// The newest entry of the state change's subject, if the version of the row that the state change left was written by
// the transaction that wrote this entry: whatever wrote to the log since has made a new version of the row. `hash` is
// that of the key.
bool recall_newest(const StateChange& change, uint32 hash, NewestEntry* newest);

// The state change has become this entry, in the current (sub)transaction.
void remember_newest(const StateChange& change, uint32 hash, const LogEntry& entry);

// After changes of tables and lifecycles, after an error, and when somebody writes to a log by its door.
void forget_newest_entries() noexcept;

}  // namespace pawl
