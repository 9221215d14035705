// May throw and may ereport. What a backend knows of each table that carries our triggers: its bindings, resolved to
// attribute numbers, with the functions its transitions call.
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
    bool running;          // the outermost call uses `function`, which keeps what it has begun
    bool broken;           // an error left it in the middle
    MemoryContext memory;  // where it keeps it; made when first called
};

struct TransitionCalls {
    Call* guards;
    int nguards;
    Call* effects;
    int neffects;
};

// Where the log of a binding is and how its rows are laid out.
struct LogLayout {
    Oid table;
    const KeyColumn* keys;  // what the first columns of its primary key must be like
    bool stored;            // most_recent is a column
    bool hash_chain;
};

// One lifecycle on one member table (the enforced table itself, a partition of it, or an inheritance child).
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
    bool events;             // transitions go to the outbox
    AttrNumber traceparent;  // the column with the row's trace; 0: none
    AttrNumber tracestate;
    Oid locked_after;  // the table whose rows are locked before those of this one; invalid: none
    int nresults;      // columns with the result of a row, or its error
    AttrNumber* results;
    bool log_fence;    // metadata of log entries says the fencing token and the transaction
    bool wake;         // rows that become claimable wake who sleeps
    bool* claimable;   // by StateId: an event by which rows are claimed leaves it; null without wake
    Managed* managed;  // null: no columns are kept
    bool has_effects;
    bool has_guards;
    TransitionCalls* calls;       // by transition
    TupleConversionMap* to_root;  // null when the row types are the same
    TupleDesc root_descriptor;
    ScanPosition* positions;    // of claims
    KnownOwners* known_owners;  // of pawl.reap; null: nothing is remembered
    KeptPlan* kept_plans;       // of the functions that take many rows
    char* column_lists[2];      // what they read, made when first used
    SPIPlanPtr
        plans[static_cast<int>(Plan::count)];  // kept plans of the functions that move rows, made when first used
};

// Whether moves are put down anywhere, so that the key of a row must be known and stay.
inline bool is_recorded(const Binding& binding) {
    return OidIsValid(binding.log.table) || binding.events;
}

struct Member {
    Oid relid;
    bool stale;
    bool validated_before;   // nothing can change a row after pawl.judge() saw it (but for a move)
    bool has_after_trigger;  // there is an AFTER UPDATE trigger for what could not be judged before, and for effects
    bool has_effects;
    bool manages_columns;   // of any of its bindings
    bool guards_generated;  // there are guards, and generated columns that they may read
    int npartition_keys;
    AttrNumber* partition_keys;  // columns that decide in which partition a row lies
    int nbindings;
    Binding* bindings;
    MemoryContext context;
    Member* next_stale;
};

// The member for a relation. Throws when no lifecycle is attached to it or to an ancestor.
Member* find_member(Relation relation);

// Whether find_member has the answer already.
bool is_known(Oid relid) noexcept;

// Reads one binding of a table, its machine, its functions and its log, and keeps nothing. Throws what find_member
// would: XX001 where the catalog is damaged.
void check_binding(Oid relid, const char* column);

// Reports a row of pawl.binding that no function of pawl has written, or that no longer fits: XX001.
[[noreturn]] void report_binding(Oid relation, const char* column, const char* problem);

// The binding of a column (null: the only one). Throws 42704 when there is none, 22023 when the choice is not clear.
Binding* find_binding(Member* member, const char* column);

// What the counters add to the roles of a transition: the row leaves the owned states by its owner's doing, or by a
// timer or an operator, not by the loss of its lease.
inline constexpr std::uint8_t role_gives_up = 32;

// The roles that a transition is counted with. `taken_away`: the row was taken from its owner.
std::uint8_t counted_roles(const Binding& binding, int transition, bool taken_away);

core::StateId decode_state(const Binding& binding, Datum value, bool null);
text* state_as_text(const Binding& binding, Datum value, bool null);  // whatever is in the column; null for NULL

// What else a backend keeps of tables and bindings, above this folder. The hooks set it once; null: there is nothing.
struct CacheListener {
    void (*invalidated)() noexcept;               // what is known of tables may be old
    void (*released)(Binding& binding) noexcept;  // it is about to be freed
    void (*checked)(const Binding& binding);      // its log is looked at, as its first entry would; may ereport
};
extern CacheListener cache_listener;

void forget_member(Oid relid) noexcept;  // InvalidOid: all
void free_stale_members() noexcept;
void register_cache_callbacks();

}  // namespace pawl
