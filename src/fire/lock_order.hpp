// May ereport; owns nothing. Rows that belong to a row of another table are locked after that row, if
// pawl.set_lock_order says so. All functions that lock rows keep the order; a plain UPDATE of the user's cannot.
#pragma once

#include "fire/plans.hpp"
#include "fire/target.hpp"

namespace pawl {

// A join for a query of rows (row_alias) that locks the other row of each first. A row whose other row is locked by
// another transaction is skipped. Empty when the table has no lock order. Raises 55000 when the other table does not
// fit any more.
const char* lock_first(const Binding& binding);

// Locks the other rows of the rows that a condition finds, in the order of their keys, and waits for them.
void lock_before_rows(const Target& target, const char* condition, const Parameters& parameters);

// The same for the keys of rows: one Datum a key column, or one array a key column.
void lock_before_row(const Target& target, const Datum* key);
void lock_before_keys(const Target& target, const Datum* key_columns);

}  // namespace pawl
