// May throw and may ereport. Resolves the names of guards and effects to functions.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// The qualified name of the function of two arguments that this name finds in the caller's search path; null if it is
// no function. Allocated in the current memory context.
const char* resolve_function_name(const std::string& name);

// The functions of a binding's guards and effects, stored when the machine is bound: name(row, row), name(anyelement,
// anyelement) or name(record, record), where "row" stands for the table's row type. A binding made by an earlier
// version has no known signatures.
struct Signatures {
    char** items;
    int n;
    bool known;
};

// The signature of a qualified name for a table's row type: the stored one if it still exists, else row, then
// anyelement, then record. Null if there is no such function. Allocated in the current memory context; may ereport.
const char* row_function_signature(const char* qualified_name, Oid row_type, const Signatures& stored);

// The function of a qualified name by the signatures; if they are not known, by the order of row_function_signature.
// InvalidOid if there is none, or if a guard does not return boolean. May ereport.
Oid find_row_function(const char* qualified_name, Oid row_type, bool guard, const Signatures& signatures);

}  // namespace pawl
