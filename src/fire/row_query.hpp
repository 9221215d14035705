// May ereport; owns nothing. The statements with which functions find and move rows: prepared once, run with the
// caller's rights. All of it runs inside SPI.
#pragma once

#include "fire/target.hpp"

namespace pawl {

// A row found by its key, in the row type of the enforced table.
struct FoundRow {
    HeapTuple tuple;  // null: no such row (or hidden from the caller by row security)
    TupleTableSlot* slot;
    core::StateId state;
    text* state_text;
    int same_as;  // of find_rows: which other key found the same row first; -1: none
};

// A name that no column has, so that it means the whole row.
inline constexpr const char* row_alias = "\"pawl~row\"";

// A tuple as a row that was found; a value of the table's row type as a tuple of its own.
FoundRow row_from(const Target& target, HeapTuple tuple);
HeapTuple composite_as_tuple(Datum composite);

// ROWS FROM (unnest($2), unnest($3)) WITH ORDINALITY AS k(k0, k1, n), the condition that a row has such a key, and the
// key as an ORDER BY list.
char* unnested_keys(const Binding& binding, int first_parameter);
char* key_join(const Binding& binding);
char* key_order(const Binding& binding);

// Finds one row; `lock` keeps others from moving it until the transaction ends.
FoundRow find_row(const Target& target, const Datum* key, bool lock);

// Finds many, locked in the order of their keys; fills found[i] for key i.
void find_rows(const Target& target, const Datum* key_columns, int n, FoundRow* found);

// Writes the state. Who moves and why stands in the current intent. The number of rows written; or, of many, moved[i]
// for key i.
uint64 move_row(const Target& target, const Datum* key, text* state);
void move_rows(const Target& target, const Datum* key_columns, text* state, bool* moved);

// The row as it would be in another state.
HeapTuple with_state(const Target& target, HeapTuple row, text* state);

}  // namespace pawl
