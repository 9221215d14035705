// May ereport; owns nothing. Removes partitions of a log as a whole.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// A partition, with the statements made by pawl._prune_whole_statements.
struct WholePart {
    Oid table;
    char* looks_old;
    char* may_go;
    char* count_all;
    char* keep_ends;
    bool emptied;  // by an earlier call
};

struct WholeResult {
    bool done;  // nothing is left to remove row by row
    bool emptied;
    bool droppable;
    int64 removed;
};

// Empties a partition if all its entries are older than the cutoff. Call it with the rights of the log's owner and
// write access to the partition and the anchors. Does not wait for locks.
WholeResult empty_part(const WholePart& part, TimestampTz cutoff);

// Drops an empty partition that later partitions follow, if its locks are available. The log stays locked until the
// transaction ends. *patience: milliseconds left to wait for the lock; decremented.
bool drop_part(Oid table, Oid log, int* patience);

}  // namespace pawl
