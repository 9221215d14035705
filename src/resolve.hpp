// May throw and may ereport. From the names of guards and effects to functions.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// The qualified name of a function of two arguments that this name means under the caller's search path; null when it is no name
// of a function. Allocated in the current memory context.
const char* resolve_function_name(const std::string& name);

// f(row, row) for a table's row type under a qualified name: exact, then anyelement, then record. InvalidOid when there is none,
// or when a guard does not return boolean. May ereport.
Oid find_row_function(const char* qualified_name, Oid row_type, bool guard);

}  // namespace pawl
