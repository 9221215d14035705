// May ereport; owns nothing. Metadata that the kernel adds to log entries.
#pragma once

#include "guard/managed_columns.hpp"

namespace pawl {

// The owner that lost the row, with its lease and token.
Jsonb* lost_ownership(const Ownership& ownership);

// "success" and "execution_time_ms" of the result that a statement writes, for the audit; null if it has neither.
Jsonb* facts_of_result(const Binding& binding, const Statement& statement);

}  // namespace pawl
