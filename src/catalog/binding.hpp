// May ereport; owns nothing. A machine attached to a table's column, as the backend uses it, and how it is built from
// its row in pawl.binding.
#pragma once

#include "catalog/key_column.hpp"
#include "catalog/machine_cache.hpp"
#include "catalog/managed_columns.hpp"
#include "catalog/resolve.hpp"
#include "catalog/shard.hpp"

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
    Oid root;          // the enforced table
    Oid table;         // whose rows functions find and move: the root, or the shard of a distributed one
    bool distributed;  // the rows are in shards on several nodes, and `table` has none
    NameData column;   // name in the root
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
    bool checks;             // PW001 to PW003 are raised as 23514, a violated check constraint
    bool events;             // state changes go to the outbox
    AttrNumber traceparent;  // the columns with the row's trace context; 0: none
    AttrNumber tracestate;
    bool validated;    // false: rows that were there before may be in unknown states and have no log yet
    Oid locked_after;  // the table whose rows are locked before those of this one; InvalidOid: none
    int nresults;      // number of columns with the result of a row, or its error
    AttrNumber* results;
    bool logs_token;   // metadata of log entries contains the fencing token and the transaction
    bool placing;      // pawl.place is allowed
    bool wake;         // rows that become claimable wake waiters
    bool* claimable;   // by StateId: a claim event leaves it; null without wake
    Managed* managed;  // null: there are no managed columns
    bool has_effects;
    bool has_guards;
    TransitionCalls* calls;       // by transition
    TupleConversionMap* to_root;  // null when the row types are the same
    TupleDesc root_descriptor;
    TupleDesc row_descriptor;                        // of the rows of `table`
    ScanPosition* positions;                         // of claims
    KnownOwners* known_owners;                       // of pawl.reap; may be null
    KeptPlan* kept_plans;                            // of the functions that change many rows
    char* column_lists[2];                           // the columns that these read, created when first used
    KeptPlan* plans[static_cast<int>(Plan::count)];  // created when first used; of them too
};

// Whether state changes are written to a log or the outbox, for which the key of a row must not change.
inline bool is_recorded(const Binding& binding) {
    return OidIsValid(binding.log.table) || binding.events;
}

// A role for counters, in addition to TransitionRole: the row leaves the owned states by its owner, a timer or an
// operator, not by lease expiry.
inline constexpr std::uint8_t role_gives_up = 32;

// The roles that a transition is counted with. `taken_away`: see takes_away in guard/ownership.hpp.
std::uint8_t counted_roles(const Binding& binding, int transition, bool taken_away);

core::StateId decode_state(const Binding& binding, Datum value, bool null);
text* state_as_text(const Binding& binding, Datum value, bool null);  // also of unknown states; null for NULL

// Reports a damaged row of pawl.binding: XX001. `problem` is a sentence.
[[noreturn]] void report_binding(Oid relation, const char* column, const char* problem);

// A row of pawl.binding, in the memory context of the member that is built.
struct StoredBinding {
    Oid relation;
    char* column;
    char* machine;
    int version;
    char** keys;
    int nkeys;
    Oid history;
    char* most_recent;
    bool hash_chain;
    char* on_delete;
    char* errors;
    bool events;
    bool wake;
    char** trace;
    int ntrace;
    char** results;
    int nresults;
    Oid locked_after;
    bool logs_token;
    bool placing;
    bool validated;
    Signatures calls;
    Managed* managed;
    StoredBinding* next;
};

// The rows that scans have read: last the relation that was scanned first, of each the last state column first.
struct StoredBindings {
    StoredBinding* first = nullptr;
    int n = 0;
};

// Reads a row of pawl.binding into the current memory context. A visitor for scan_bindings_of; `stored`:
// StoredBindings.
void read_stored_binding(const CatalogRow& row, void* stored);

// Builds a binding for a member table, in the current memory context. binding.machine must be set. `shard`: the member
// is a shard of the bound table; null: it is not. Errors: XX001 for a
// damaged row; 42703, 42804 and 42883 if a column or function is missing or has a wrong type.
void build_binding(Relation relation, const StoredBinding& stored, const Shard* shard, Binding& binding);

// The attribute number of a column of an enforced table. 42703 if it is missing.
AttrNumber attribute_of(Relation relation, const char* column);

}  // namespace pawl
