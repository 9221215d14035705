// May ereport; owns nothing. Rows that C++ inserts into an enforced table, many at a time and without a statement, do
// what pawl's triggers do: with_managed_columns before they are stored, and apply_insert afterwards. The caller writes
// the log entries when all rows are stored (write_pending_entries).
#pragma once

#include "guard/apply.hpp"

namespace pawl {

// Whether an INSERT into the table would fire pawl's triggers, all of them.
bool fires_insert_triggers(Relation table);

// The row as the BEFORE trigger returns it, with its managed columns. *nulls: which of its columns are null; updated.
HeapTuple with_managed_columns(Member* member, Relation table, const Row& row, bool* nulls);

}  // namespace pawl
