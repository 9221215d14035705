// May ereport; owns nothing. Writes entries to one log table, many at once.
#pragma once

#include "log/newest_entry.hpp"

namespace pawl {

// An open log table. Usage: begin_log; find_newest and add_to_log, any number of times; finish_log. Allocated in the
// memory context that is current at begin_log.
struct LogWriter;

// append: entries are added by add_to_log. one_row: form_log_tuple forms an entry that the executor inserts.
enum class LogUse { append, one_row };

LogWriter* begin_log(Relation log, const LogLayout& layout, int nkeys, LogUse use);

// Opens a partition of a log that is written through its root, with the root's executor state and transition capture.
LogWriter* begin_leaf(ResultRelInfo* target, EState* estate, TransitionCaptureState* capture, const LogLayout& layout,
                      int nkeys);
AttrNumber log_key_column(const LogWriter* writer, int key);
bool is_log_column(const LogWriter* writer, AttrNumber attribute);
NewestEntry find_newest(LogWriter* writer, const StateChange& change);

// Forms the entry for a state change after this newest entry.
HeapTuple form_log_tuple(LogWriter* writer, const StateChange& change, const NewestEntry& newest);
bool keeps_all_rows(const LogWriter* writer);         // no user trigger can skip or change an entry
const LogEntry& last_entry(const LogWriter* writer);  // the entry formed last
NewestEntry newest_after(LogWriter* writer);          // the same as a newest entry, if it keeps all rows
void retire_newest(LogWriter* writer, const NewestEntry& newest);

// Adds a state change after its newest entry. Before a second state change of a subject, call flush_log, so that
// find_newest finds the first.
void add_to_log(LogWriter* writer, const StateChange& change, const NewestEntry& newest);
void flush_log(LogWriter* writer);
void finish_log(LogWriter* writer);

}  // namespace pawl
