// May ereport; owns nothing. The end of a subject's log, and the search for it.
#pragma once

#include "log/key_page.hpp"
#include "log/log_columns.hpp"

namespace pawl {

// The newest row of a subject in the log.
struct Tail {
    bool found;
    int sort_key;
    text* to;  // null: the row was deleted
    TimestampTz at;
    bytea* hash;
    HeapTuple tuple;  // only where most_recent is stored
};

// Through the primary key of a log (key columns, sort_key), and first on the page of it where the last one was found.
struct TailSearch {
    Relation log;
    Oid root;  // the log that a partition belongs to, else the same
    LogColumns columns;
    int nkeys;
    MemoryContext context;  // of what is found
    Relation index;
    IndexScanDesc scan;
    ScanKeyData keys[INDEX_MAX_KEYS];
    TupleTableSlot* slot;
    KeyPage page;
};

void begin_tails(TailSearch* search, Relation log, const LogLayout& layout, const LogColumns& columns, int nkeys, MemoryContext context);
Tail find_tail(TailSearch* search, const Hop& hop);
void end_tails(TailSearch* search);

}  // namespace pawl
