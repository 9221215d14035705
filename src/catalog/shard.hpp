// May ereport; owns nothing. Shards of tables that Citus distributes: on each node the rows are in tables of other
// names. Citus' catalog is read by name, so nothing here needs Citus, and a database without it is only asked once
// whether it has that catalog.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

struct Shard {
    int64 id;
    Oid logical;  // the distributed table, as this node knows it
    Oid root;     // the shard, or the shard of the partitioned table that it is a partition of
};

// Whether a table is a shard. A table that only has the name of one is none: it must be where Citus keeps that shard,
// and belong to the owner of the distributed table. `left_behind`: also if the shard went to another node, and Citus
// has not dropped the table yet.
bool find_shard(Relation relation, Shard* shard, bool left_behind = false);

// The shard of a colocated table with the same range of the distribution column. InvalidOid: this node has none.
Oid shard_beside(const Shard& shard, Oid logical);

// The shards of a distributed table that this node has, of which a partitioned table has those of its root only.
List* shards_here(Oid logical);

// Whether Citus distributes a table, as this node knows it.
bool is_distributed(Oid relation);

// Whether this database has Citus.
bool has_citus();

// What a statement may have done to the distribution of enforced tables. Citus announces it as a change of the table.
struct Distribution {
    int level;     // the outermost executor level at which a table has changed; no_level: none has
    bool pending;  // a statement may be distributing an enforced table
};
extern Distribution distribution;
void note_relation_change() noexcept;
void forget_relation_changes() noexcept;

}  // namespace pawl
