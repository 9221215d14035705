// May ereport; owns nothing. Partitions of a log that go as a whole.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// A partition, with statements made by pawl._prune_whole_statements.
struct WholePart {
    Oid table;
    char* looks_old;
    char* may_go;
    char* count_all;
    char* keep_ends;
    bool emptied;  // by an earlier call
};

struct WholeResult {
    bool done;  // nothing is left to be removed row by row
    bool emptied;
    bool droppable;
    int64 removed;
};

// With the rights of the log's owner, and the partition and the anchors open. Waits for nobody.
WholeResult empty_part(const WholePart& part, TimestampTz cutoff);

// Drops an empty partition whose time is over, if nobody is writing the log; after that nobody can until the
// transaction ends. patience: for how many milliseconds more such a moment is looked for.
bool drop_part(Oid table, Oid log, int* patience);

}  // namespace pawl
