// May throw and may ereport. The backend's cache of tables with pawl's triggers: for each its bindings, resolved to
// attribute numbers and functions.
#pragma once

#include "catalog/binding.hpp"

namespace pawl {

struct Member {
    Oid relid;
    bool stale;
    bool validated_before;   // nothing changes a row after the BEFORE trigger validated it, except a partition change
    bool has_after_trigger;  // there is an AFTER UPDATE trigger for rows not validated before, and for effects
    bool has_effects;
    bool manages_columns;   // any of its bindings does
    bool guards_generated;  // it has guards, and generated columns that they may read
    int npartition_keys;
    AttrNumber* partition_keys;  // columns that determine the partition of a row
    int nbindings;
    Binding* bindings;
    MemoryContext context;
    Member* next_stale;
};

// Finds or builds the member for a relation. Throws 42704 if neither it nor an ancestor has a binding.
Member* find_member(Relation relation);

// Whether the member is in the cache.
bool is_known(Oid relid) noexcept;

// Reads one binding of a table with its machine, functions and log, to check them; caches nothing. Throws the errors of
// find_member, XX001 if the catalog is damaged.
void check_binding(Oid relid, const char* column);

// Whether a row that is inserted comes from the table that Citus is distributing just now: the shard was created in
// this transaction, and the coordinator has not told of the binding yet. Such rows were validated and recorded where
// they come from, and the coordinator looks at them before it commits.
bool is_being_filled(Relation relation);

// Finds the binding of a column (null: the only one). Throws 42704 if there is none, 22023 if null is ambiguous.
Binding* find_binding(Member* member, const char* column);

// Callbacks for caches of folders above this one. The hooks set them once; each may be null.
struct CacheListener {
    void (*invalidated)() noexcept;               // cached data of tables may be stale
    void (*released)(Binding& binding) noexcept;  // the binding is about to be freed
    void (*checked)(const Binding& binding);      // checks the log of a binding; may ereport
};
extern CacheListener cache_listener;

void forget_member(Oid relid) noexcept;  // InvalidOid: all
void free_stale_members() noexcept;
void register_cache_callbacks();

}  // namespace pawl
