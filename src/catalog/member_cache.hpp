// May throw and may ereport. The backend's cache of tables with pawl's triggers: for each its bindings, resolved to
// attribute numbers and functions.
#pragma once

#include "catalog/key_column.hpp"
#include "catalog/machine_cache.hpp"
#include "catalog/managed_columns.hpp"
#include "pg/postgres.hpp"

namespace pawl {

enum class OnDelete { allow, terminal, deny };

// A guard or effect of a transition, ready to be called with (old row, new row) of the root table's row type.
struct Call {
    const char* name;
    FmgrInfo function;
    bool running;          // a call is active; nested calls use a copy of `function`
    bool broken;           // an error has ended a call
    MemoryContext memory;  // of the function's state between calls; created by the first call
};

struct TransitionCalls {
    Call* guards;
    int nguards;
    Call* effects;
    int neffects;
};

// The log of a binding and the layout of its rows.
struct LogLayout {
    Oid table;
    const KeyColumn* keys;  // the first columns of its primary key match them
    bool stored;            // most_recent is a column
    bool hash_chain;
};

// Kept plans of functions that change the state of rows, by their use.
enum class Plan { find, move, find_many, move_many, count };

struct ScanPosition;
struct KeptPlan;
struct KnownOwners;

struct Binding {
    Oid root;
    NameData column;  // name in the root
    BoundMachine* machine;
    AttrNumber state;
    Oid state_type;  // base type of the column
    bool is_enum;
    int nlabels;  // enum labels, sorted by oid
    Oid* label_oids;
    core::StateId* label_states;
    int nkeys;
    KeyColumn* keys;
    LogLayout log;           // table = InvalidOid: no history
    bool log_is_replicated;  // this database receives the log from elsewhere
    OnDelete on_delete;
    bool events;             // state changes go to the outbox
    AttrNumber traceparent;  // the columns with the row's trace context; 0: none
    AttrNumber tracestate;
    Oid locked_after;  // the table whose rows are locked before those of this one; InvalidOid: none
    int nresults;      // number of columns with the result of a row, or its error
    AttrNumber* results;
    bool logs_token;   // metadata of log entries contains the fencing token and the transaction
    bool wake;         // rows that become claimable wake waiters
    bool* claimable;   // by StateId: a claim event leaves it; null without wake
    Managed* managed;  // null: there are no managed columns
    bool has_effects;
    bool has_guards;
    TransitionCalls* calls;       // by transition
    TupleConversionMap* to_root;  // null when the row types are the same
    TupleDesc root_descriptor;
    ScanPosition* positions;                          // of claims
    KnownOwners* known_owners;                        // of pawl.reap; may be null
    KeptPlan* kept_plans;                             // of the functions that change many rows
    char* column_lists[2];                            // the columns that these read, created when first used
    SPIPlanPtr plans[static_cast<int>(Plan::count)];  // created when first used
};

// Whether state changes are written to a log or the outbox, for which the key of a row must not change.
inline bool is_recorded(const Binding& binding) {
    return OidIsValid(binding.log.table) || binding.events;
}

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

// Reports a damaged row of pawl.binding: XX001. `problem` is a sentence.
[[noreturn]] void report_binding(Oid relation, const char* column, const char* problem);

// Finds the binding of a column (null: the only one). Throws 42704 if there is none, 22023 if null is ambiguous.
Binding* find_binding(Member* member, const char* column);

// A role for counters, in addition to TransitionRole: the row leaves the owned states by its owner, a timer or an
// operator, not by lease expiry.
inline constexpr std::uint8_t role_gives_up = 32;

// The roles that a transition is counted with. `taken_away`: see takes_away in guard/ownership.hpp.
std::uint8_t counted_roles(const Binding& binding, int transition, bool taken_away);

core::StateId decode_state(const Binding& binding, Datum value, bool null);
text* state_as_text(const Binding& binding, Datum value, bool null);  // also of unknown states; null for NULL

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
