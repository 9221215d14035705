// May ereport; owns nothing. What the kernel itself adds to the metadata of a log entry.
#pragma once

#include "guard/managed_columns.hpp"

namespace pawl {

// The lease of the row has run out: who lost it, with the lease and the token.
Jsonb* lost_ownership(const Ownership& ownership);

// What the result says that a statement gives the row: "success" and "execution_time_ms", for the audit to read; null:
// nothing.
Jsonb* facts_of_result(const Binding& binding, const Statement& statement);

}  // namespace pawl
