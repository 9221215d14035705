// May ereport; owns nothing. The columns that identify a row, and the equality of their values.
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

// Equality as the primary key has it, for values that are not null. Equal values have equal hashes.
bool same_key_value(const KeyColumn& key, Datum a, Datum b);
uint32 hash_key_value(const KeyColumn& key, Datum value);

// The equality of a type as OPERATOR(schema.=), which does not depend on the caller's search_path.
char* equality(Oid type);
char* greater_than(Oid type);

// Conditions of a statement: one = other, one > other. Operators of users' types are not named, because casts made by
// the type's owner could change which operator is chosen.
char* same_values(Oid type, const char* one, const char* other);
char* greater_value(Oid type, const char* one, const char* other);

// Whether values of this type have the same text in every session.
bool has_one_text(Oid type);

// The text of a value, independent of settings: times, floats and bytes as pawl.verify prints them. Every session reads
// it back as the same value.
char* fixed_text(Oid type, Datum value);

// Makes the text of values independent of settings, until AtEOXact_GUC with the returned level. After an error, the end
// of the transaction restores the settings.
int begin_fixed_text();

}  // namespace pawl
