// May ereport; owns nothing. If pawl.set_lock_order says so, a row of another table is locked before the rows that
// belong to it. All functions that lock rows keep this order; a user's plain UPDATE cannot.
#pragma once

#include "fire/plans.hpp"
#include "fire/target.hpp"

namespace pawl {

// A join for a query of rows (row_alias) that locks the other row of each row first. Rows whose other row is locked by
// another transaction are skipped. Empty if the table has no lock order. Raises 55000 if the other table no longer
// fits.
const char* lock_first(const Binding& binding);

// Locks the other rows of the rows that a condition finds, in the order of their keys. Waits for the locks.
void lock_before_rows(const Target& target, const char* condition, const Parameters& parameters);

// The same for the keys of rows: one Datum a key column, or one array a key column.
void lock_before_row(const Target& target, const Datum* key);
void lock_before_keys(const Target& target, const Datum* key_columns);

}  // namespace pawl
