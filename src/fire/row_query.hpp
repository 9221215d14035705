// May ereport; owns nothing. The statements with which functions find and move rows. They are prepared once and run
// with the caller's rights. All of it must run inside SPI.
#pragma once

#include "fire/target.hpp"

namespace pawl {

// A row found by its key, in the row type of the enforced table.
struct FoundRow {
    HeapTuple tuple;  // null: no such row, or row security hides it from the caller
    TupleTableSlot* slot;
    core::StateId state;
    text* state_text;
    int same_as;  // set by find_rows: index of an earlier key that found the same row; -1: none
};

// What statements call the enforced table. Alone it may be a column of that name, so the row as one value is whole_row.
inline constexpr const char* row_alias = "\"pawl~row\"";
const char* whole_row(const Target& target);

// A tuple as a found row; a value of the table's row type as a tuple of its own.
FoundRow row_from(const Target& target, HeapTuple tuple);
HeapTuple composite_as_tuple(Datum composite);

// ROWS FROM (unnest($2), unnest($3)) WITH ORDINALITY AS k(k0, k1, n), with a column to_state before n if a parameter of
// states is given; the condition that a row has such a key, and the
// key as an ORDER BY list.
char* unnested_keys(const Binding& binding, int first_parameter, int states_parameter = 0);
// The same for the key of one row, which the planner turns into a plain lookup.
char* single_key(const Binding& binding, int first_parameter);
char* key_join(const Binding& binding);
char* key_order(const Binding& binding);

// Finds one row. `lock` locks it until the transaction ends.
FoundRow find_row(const Target& target, const Datum* key, bool lock);

// Finds many rows, locked in the order of their keys. found[i] becomes the row of key i.
void find_rows(const Target& target, const Datum* key_columns, int n, FoundRow* found);

// Writes the state; the current intent holds the processor and the event. move_row returns the number of rows written,
// move_rows sets moved[i] for key i.
uint64 move_row(const Target& target, const Datum* key, text* state);
void move_rows(const Target& target, const Datum* key_columns, text* state, bool* moved);

// The row as it would be in another state.
HeapTuple with_state(const Target& target, HeapTuple row, text* state);

}  // namespace pawl
