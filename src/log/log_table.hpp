// May ereport; owns nothing. A log table that is open for inserts: its indexes, triggers and constraints.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// Usage: open_log_table or open_log_leaf; choose_way; begin_log_triggers; insert_log_rows, any number of times;
// close_log_table.
struct LogTable {
    Relation log;
    EState* estate;
    ResultRelInfo* target;
    bool simple_indexes;         // index entries need no executor: there are no exclusion or deferrable constraints
    Relation most_recent_index;  // unique (key) WHERE most_recent, if stored; owned by `target`; set by the writer
    bool many;                   // rows are inserted in batches, as by COPY
    bool fires;                  // the log has user triggers
    bool leaf;                   // a partition, written through its root
    bool snapshot;  // one was pushed for the triggers: during logical apply and at commit there may be none
    TransitionCaptureState* capture;
    bool checks;           // the log has CHECK constraints
    AttrNumber* required;  // the columns that are NOT NULL
    int nrequired;
};

// Opens a log; rows go in batches until choose_way says otherwise.
LogTable open_log_table(Relation log);

// Opens a partition that is written through its root, with the root's executor state and transition capture.
LogTable open_log_leaf(ResultRelInfo* target, EState* estate, TransitionCaptureState* capture);

// Decides between batches and single rows. `columns`: how many a log has that the owner has not altered.
void choose_way(LogTable* table, int columns);

// Fires the BEFORE STATEMENT triggers. Not for partitions.
void begin_log_triggers(LogTable* table);

// Raises the error of a violated constraint, if this row of a batch violates one. nulls: which of its columns are null.
void check_batched_row(const LogTable& table, TupleTableSlot* slot, const bool* nulls);

void insert_log_rows(LogTable* table, TupleTableSlot** slots, int n);

// Inserts index entries of the next version of a row: the slot has its new place.
void index_next_version(LogTable* table, TupleTableSlot* slot);

// Fires the AFTER STATEMENT triggers and closes the table. Of a partition, only the root closes what is open.
void close_log_table(LogTable* table);

// Whether a LogTable is inserting this row, as opposed to a user's INSERT; for triggers of the log.
bool is_stored_now(const TupleTableSlot* slot) noexcept;

}  // namespace pawl
