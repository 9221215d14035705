// May ereport; owns nothing. The end of a subject's log, and the search for it.
#pragma once

#include "log/columns.hpp"
#include "log/key_page.hpp"

namespace pawl {

// The newest row of a subject in the log.
struct NewestEntry {
    bool found;
    int sort_key;
    text* to;  // null: the row was deleted
    TimestampTz at;
    bytea* hash;
    HeapTuple tuple;  // only where most_recent is stored
};

// Through the primary key of a log (key columns, sort_key), and first on the page of it where the last one was found.
struct NewestEntrySearch {
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

void begin_search(NewestEntrySearch* search, Relation log, const LogLayout& layout, const LogColumns& columns,
                  int nkeys, MemoryContext context);
NewestEntry find_newest(NewestEntrySearch* search, const StateChange& change);
void end_search(NewestEntrySearch* search);

}  // namespace pawl
