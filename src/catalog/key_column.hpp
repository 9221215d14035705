// May ereport; owns nothing. The columns that identify a row, and when two of their values are the same.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

struct KeyColumn {
    AttrNumber attribute;  // in the member table
    NameData name;
    Oid type;
    Oid collation;
    int16 length;
    bool by_value;
    bool by_image;  // equal values have equal bytes; not so for numeric (1.0 and 1.00), float, citext
};

KeyColumn describe_key_column(Relation relation, AttrNumber attribute, const char* name);

// Sameness as the primary key sees it; nulls are the callers' affair. Values that are the same have the same hash.
bool same_key_value(const KeyColumn& key, Datum a, Datum b);
uint32 hash_key_value(const KeyColumn& key, Datum value);

// The equality of a type, OPERATOR(schema.=): what stands in the caller's search_path has no say.
char* equality(Oid type);
char* greater_than(Oid type);

// Conditions of a statement: one = other, one > other. An operator of a user's type is not named: casts that its owner
// makes would have a say in which one is meant.
char* same_values(Oid type, const char* one, const char* other);
char* greater_value(Oid type, const char* one, const char* other);

// Whether values of this type look the same in every session.
bool has_one_text(Oid type);

// The text of a value, the same in every session: times, floats and bytes as pawl.verify prints them. Every session
// reads it back to the same value.
char* fixed_text(Oid type, Datum value);

// Values look the same in every session, until AtEOXact_GUC of the level it returns; an error in between is undone with
// its transaction.
int begin_fixed_text();

}  // namespace pawl
