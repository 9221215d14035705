// May ereport; owns nothing. Finds the newest entry of a subject: in the session's cache, or by the log's primary key.
#pragma once

#include "log/layout.hpp"

namespace pawl {

// The page of the log's primary key that was read last. Rows that change state together mostly have adjacent entries,
// which then need no descent from the root of the index.
struct KeyPage {
    Relation index;
    int nkeys;
    FmgrInfo* order[INDEX_MAX_KEYS];
    BlockNumber block;
    Buffer buffer;        // pinned, not locked; no heap place that was read here is given away by VACUUM meanwhile
    OffsetNumber offset;  // where the last search ended
    int misses;           // in a row: keys that are scattered are left to ordinary searches
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

// The cache of newest entries that this session has written: a worker that reports what it has claimed needs no search.
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
