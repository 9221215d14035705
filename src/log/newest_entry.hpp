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
    Buffer buffer;        // pinned, not locked; the pin keeps VACUUM from reusing heap tuples that the page points to
    OffsetNumber offset;  // where the last search ended
    int misses;           // consecutive; after too many, keys are scattered and the page is not used
};

// A search by the primary key of a log (key columns, sort_key), which first looks at the page of the last result.
// Usage: begin_search; find_newest, any number of times; end_search.
struct NewestEntrySearch {
    Relation log;
    Oid root;  // the root of a partitioned log, else the same
    LogColumns columns;
    int nkeys;
    MemoryContext context;  // of the results
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

// Whether the log can use the cache of newest entries that this session has written, with which a worker that reports
// its claimed rows needs no search. A stored most_recent needs the entry itself, and a hash chain its hash, so both
// exclude the cache.
bool remembers_newest(const LogLayout& layout) noexcept;

// Finds the newest entry of the state change's subject in the cache. It is valid if the transaction that wrote it also
// wrote the old version of the row: every later entry comes with a new version. `hash`: of the key.
bool recall_newest(const StateChange& change, uint32 hash, NewestEntry* newest);

// Adds the entry of a state change, written by the current (sub)transaction, to the cache.
void remember_newest(const StateChange& change, uint32 hash, const LogEntry& entry);

// Empties the cache: after changes of tables and bindings, after an error, and after an INSERT into a log.
void forget_newest_entries() noexcept;

}  // namespace pawl
