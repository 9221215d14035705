// May ereport; owns nothing. The layout of a log: its columns, its hash chain, and the anchors that pruning keeps of
// subjects whose entries are all gone.
#pragma once

#include "catalog/state_change.hpp"

namespace pawl {

// Attribute numbers of a log's columns, found by name: a restored log, or one with added columns, has other numbers.
struct LogColumns {
    AttrNumber id, sort_key, from_state, to_state, event, processor, actor, correlation_id, metadata, machine_version,
        created_at;
    AttrNumber most_recent, hash, salt, salts, placed;  // 0 if the log has none
};

// The column of this name. Raises 42703 if there is none, XX001 if its type is another one.
AttrNumber typed_column(Relation log, const char* name, Oid type);

// Finds the columns of a log. Raises 42703 or XX001 if a column was changed, or the table is no log.
LogColumns find_columns(Relation log, const LogLayout& layout);

// Check that a primary key consists of columns with the types of the table's key and `more` other columns; and that the
// one of a log ends with sort_key. Raise XX001.
void check_subject_key(Relation kept, Relation primary_key, const KeyColumn* keys, int nkeys, int more);
void check_log_key(Relation log, Relation primary_key, const LogColumns& columns, const KeyColumn* keys, int nkeys);

// Checks that a relation can be a log or a table of anchors. Raises XX001.
void check_log_table(Relation log);

// Runs all these checks on the log of a binding, if it has one. Raises XX001.
void check_log(const Binding& binding);

// The newest entry of a subject in the log.
struct NewestEntry {
    bool found;
    int sort_key;
    text* to;  // null: the row was deleted
    TimestampTz at;
    bytea* hash;
    HeapTuple tuple;  // only if most_recent is stored
};

// Finds the anchor of a subject: its newest entry when all its entries were pruned. Not found for other subjects
// without entries.
NewestEntry find_anchor(Oid log, const StateChange& change);

// Makes a salt of 16 random bytes. It is stored with the entry until a value of that is redacted.
bytea* make_salt();

// Computes sha256(previous || content). The content equals that of pawl._log_content, so that a chain can be checked in
// SQL. It has commitments with the salt in place of values that can be redacted.
bytea* log_hash(const StateChange& change, int sort_key, TimestampTz at, const bytea* previous, const bytea* salt);

}  // namespace pawl
