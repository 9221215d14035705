// May ereport; owns nothing. What Citus does to enforced tables: when it distributes one, the log follows and the nodes
// learn of the binding. sql/pawl/enforce/distribution.sql has the rules.
#pragma once

#include "catalog/shard.hpp"

namespace pawl {

// After a statement that changed tables: distributes the logs of enforced tables that were distributed.
void follow_distribution();

// Before the commit: rows that came into a distributed table in the transaction that enforced it, or distributed it,
// may have met shards that knew of no binding yet. Raises 55000 if one is in no state or lacks its log entry.
void check_distributed();

void forget_distribution() noexcept;  // end of transaction

}  // namespace pawl
