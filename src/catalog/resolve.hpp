// May throw and may ereport. From the names of guards and effects to functions.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// The qualified name of a function of two arguments that this name means under the caller's search path; null when it
// is no name of a function. Allocated in the current memory context.
const char* resolve_function_name(const std::string& name);

// Which function of a qualified name each guard and effect of a binding is, settled when the machine is attached:
// name(row, row), name(anyelement, anyelement) or name(record, record), of which "row" is the table's row type under
// whatever name. Not known: of a binding that an earlier version made.
struct Signatures {
    char** items;
    int n;
    bool known;
};

// What a qualified name means for a table's row type: what is settled, when that is still there; else exact, then
// anyelement, then record. Null when there is no such function. Allocated in the current memory context; may ereport.
const char* row_function_signature(const char* qualified_name, Oid row_type, const Signatures& settled);

// The function of a qualified name that the signatures say; where they are not known, as row_function_signature.
// InvalidOid when there is none, or when a guard does not return boolean. May ereport.
Oid find_row_function(const char* qualified_name, Oid row_type, bool guard, const Signatures& signatures);

}  // namespace pawl
