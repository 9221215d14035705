// May ereport; owns nothing. The statements with which functions find and move rows: prepared once, run with the caller's rights.
// All of it runs inside SPI.
#pragma once

#include "subject.hpp"

namespace pawl {

// A row found by its key, in the row type of the enforced table.
struct FoundRow {
    HeapTuple tuple;  // null: no such row (or hidden from the caller by row security)
    TupleTableSlot* slot;
    core::StateId state;
    text* state_text;
    int same_as;  // of find_rows: which other key found the same row first; -1: none
};

// Finds one row; `lock` keeps others from moving it until the transaction ends.
FoundRow find_row(const Target& target, const Datum* key, bool lock);

// Finds many, locked in the order of their keys; fills found[i] for key i.
void find_rows(const Target& target, const Datum* key_columns, int n, FoundRow* found);

// Writes the state. Who moves and why stands in the current intent. The number of rows written; or, of many, moved[i] for key i.
uint64 move_row(const Target& target, const Datum* key, text* state);
void move_rows(const Target& target, const Datum* key_columns, text* state, bool* moved);

// The row as it would be in another state.
HeapTuple with_state(const Target& target, HeapTuple row, text* state);

}  // namespace pawl
