// May ereport; owns nothing. The layout of a log: its columns, its hash chain, and the anchors that pruning keeps of
// subjects whose entries are all gone.
#pragma once

#include "catalog/state_change.hpp"

namespace pawl {

// Attribute numbers, found by name: a log may have been restored, or have got columns of its owner's.
struct LogColumns {
    AttrNumber id, sort_key, from_state, to_state, event, processor, actor, correlation_id, metadata, machine_version,
        created_at;
    AttrNumber most_recent, hash, salt, salts;  // 0 where the log has none
};

// The column of this name. 42703 where there is none, XX001 where it is of another type.
AttrNumber typed_column(Relation log, const char* name, Oid type);

// 42703, XX001: the log is not the one that pawl.enable_log made, or the binding names another table.
LogColumns find_columns(Relation log, const LogLayout& layout);

// That the primary key of what is kept of subjects begins with columns of the types of the table's key, `more` columns
// before its end; and that of a log ends with sort_key. XX001.
void check_subject_key(Relation kept, Relation primary_key, const KeyColumn* keys, int nkeys, int more);
void check_log_key(Relation log, Relation primary_key, const LogColumns& columns, const KeyColumn* keys, int nkeys);

// That a relation can be a log at all, or can be looked for anchors; XX001.
void check_log_table(Relation log);

// All of this for the log of a binding, if it has one. XX001.
void check_log(const Binding& binding);

// The newest row of a subject in the log.
struct NewestEntry {
    bool found;
    int sort_key;
    text* to;  // null: the row was deleted
    TimestampTz at;
    bytea* hash;
    HeapTuple tuple;  // only where most_recent is stored
};

// Keys of a scan for equality with the first columns of a B-tree; the caller sets sk_argument.
void prepare_key_scan(Relation index, int nkeys, ScanKeyData* keys);

// The end of a log of which nothing is left; not found where that is not how it came to be empty.
NewestEntry find_anchor(Oid log, const StateChange& change);

// 16 random bytes; kept with the row until a value of it is redacted.
bytea* make_salt();

// sha256(previous || content). The content is the text that pawl._log_content gives for the same row, so that anyone
// can check a chain with plain SQL. Values that can be redacted are in it as commitments with the salt (null: as they
// are, as in version 0.0.1).
bytea* log_hash(const StateChange& change, int sort_key, TimestampTz at, const bytea* previous, const bytea* salt);

}  // namespace pawl
