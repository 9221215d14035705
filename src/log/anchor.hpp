// May ereport; owns nothing. Subjects whose whole log was pruned with its partition: they go on from what is known of
// its end.
#pragma once

#include "log/newest_entry.hpp"

namespace pawl {

// Keys of a scan for equality with the first columns of a B-tree; the caller sets sk_argument.
void prepare_key_scan(Relation index, int nkeys, ScanKeyData* keys);

// The end of a log of which nothing is left; not found where that is not how it came to be empty.
NewestEntry find_anchor(Oid log, const StateChange& change);

}  // namespace pawl
