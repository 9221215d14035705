// May ereport; owns nothing. What the planner cannot see: which index pawl made for a statement, and that tables grow
// after their plans were made.
//
// Statements that pawl keeps are planned as for large tables of which only the unique indexes are known, and read the
// table of a binding by one index. Functions of packs that look rows up by key have SET enable_seqscan = off: their
// statements, and checks of foreign keys, on tables of extensions that require pawl are planned as for tables that are
// not small, and by any index, until a table has statistics of many rows. Their plans are kept too, and PostgreSQL
// would replace them only after the next ANALYZE. All other statements are planned as usual, also those in between that
// read a user's table.
#pragma once

#include "catalog/member_cache.hpp"
#include "fire/plan_settings.hpp"

namespace pawl {

// How the rows are ordered: by an index (any, or the one that pawl made for claims, timers or leases), or by sorting
// the few rows that an index finds: any, or of_keys the unique one of the key, or if there is none as PostgreSQL plans.
// planned: as PostgreSQL plans, anew if it wants to.
enum class Order { of_index, of_claims, of_timers, of_leases, sorted, of_keys, planned };

// The unique index of the key of a binding's table; InvalidOid if there is none by which all rows are found: then
// PostgreSQL plans better.
Oid find_key_index(const Binding& binding);

// The kept statement that is being planned.
struct KeptStatement {
    const Binding* binding;  // null: there is none
    Order order;
    Oid key_index;
    PlanSettings settings;
    bool in_planner;  // what else the planner is called for meanwhile is not the statement
};

// From here to end_planning, which must be reached after an error too, plans are made for a kept statement on the
// binding's table, with settings until the current level of them ends. key_index: what find_key_index found, for
// Order::of_keys. Returns what end_planning wants: the statement whose planning called a function that runs this one.
KeptStatement begin_planning(const Binding& binding, Order order, Oid key_index, int level);
void end_planning(const KeptStatement& outer) noexcept;

// Called once, when the library is loaded.
void register_planner_hooks();

}  // namespace pawl
