// May ereport; owns nothing. Writes rows of one log table, many at once.
#pragma once

#include "log/newest_entry.hpp"

namespace pawl {

// An open log: begin, any number of find_newest / add, finish. Everything lives in the memory context current at begin.
struct LogWriter;

// append: rows are added by add_to_log. one_row: a row is formed for somebody else to insert.
enum class LogUse { append, one_row };

LogWriter* begin_log(Relation log, const LogLayout& layout, int nkeys, LogUse use);

// A partition of a log that is written through its root: the executor's state, and what the root's triggers are shown,
// are the root's.
LogWriter* begin_leaf(ResultRelInfo* target, EState* estate, TransitionCaptureState* capture, const LogLayout& layout,
                      int nkeys);
AttrNumber log_key_column(const LogWriter* writer, int key);
bool is_log_column(const LogWriter* writer, AttrNumber attribute);
NewestEntry find_newest(LogWriter* writer, const StateChange& change);

// The row for a state change after this newest entry.
HeapTuple form_log_tuple(LogWriter* writer, const StateChange& change, const NewestEntry& newest);
bool keeps_all_rows(const LogWriter* writer);         // no trigger of the owner's may drop one
const LogEntry& last_entry(const LogWriter* writer);  // that was formed
void retire_newest(LogWriter* writer, const NewestEntry& newest);

// Adds a state change after its newest entry. A second state change of a subject needs the first one's row: call
// flush_log before asking for its newest entry.
void add_to_log(LogWriter* writer, const StateChange& change, const NewestEntry& newest);
void flush_log(LogWriter* writer);
void finish_log(LogWriter* writer);

// Whether a trigger of the log sees this row because the writer stores it, and not because somebody inserts it.
bool is_stored_now(const TupleTableSlot* slot) noexcept;

}  // namespace pawl
