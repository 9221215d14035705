// May throw and may ereport. A row of an enforced table, found by its key, for the functions that fire events.
#pragma once

#include "catalog/row_identity.hpp"
#include "guard/decide.hpp"
#include "pg/arguments.hpp"
#include "pg/bridge.hpp"

namespace pawl {

// The binding that a function's (relation, state_column) arguments name, with the enforced table open.
struct Target {
    Relation relation;
    Binding* binding;
    const char* table;   // qualified and quoted
    AttrNumber written;  // the column that the function updates, for errors of missing rights; invalid: the state
};

// Throws if the table has no binding, if several bindings match, or if the table has no key. A partition or inheritance
// child means the enforced table. The caller closes the target, or leaves that to the end of the transaction.
Target open_target(Oid relation, const char* column);
Target open_table_target(Oid relation, const char* column);  // the same, also without a key
void close_target(const Target& target);

// The tables of this node that have rows of the target: the target itself, or the shards of a distributed one.
List* tables_here(const Target& target);

// Throws 0A000 for a distributed table: the function works on rows of one node.
void require_one_node(const Target& target, const char* function);

// Reads a key from a polymorphic argument: the value itself, a text of it, row(a, b) or an array of texts, or '(a,b)'
// or '{a,b}' as a text. Returns one Datum a key column.
Datum* read_key(const Binding& binding, Oid type, Datum value);

// Reads a list of keys: an array of any of these, an array of two dimensions, or its text. Returns one array a key
// column, all of the same length, for unnest. Raises 0A000 for keys of array and composite types: unnest has no array
// of the first, and splits the second.
Datum* read_keys(const Binding& binding, Oid type, Datum value, int* n);

// alias.a = $2 AND alias.b = $3, by the operators of the columns' types.
char* key_condition(const Binding& binding, const char* alias, int first_parameter);

// The type of the state column as it is written in a cast.
char* state_type_name(const Target& target);

// A state as a parameter of a statement: an enum as itself, any other type as text, so that no cast that a user made
// applies. state_value makes the column's value of that parameter.
Oid state_parameter_type(const Binding& binding);
Datum state_parameter(const Binding& binding, text* state);
char* state_value(const Target& target, const char* expression);

}  // namespace pawl
