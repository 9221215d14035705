// May ereport; owns nothing. Guards and effects: the functions that the transitions of a machine call, with the
// caller's rights.
#pragma once

#include "catalog/member_cache.hpp"

namespace pawl {

// One version of a row, in the row type of the member table it lies in.
struct RowVersion {
    HeapTuple tuple;  // null: the row is not there
    TupleDesc descriptor;
    TupleConversionMap* to_root;  // null: it has the root's row type
};

// What guards and effects see. `before` is empty for a new row; the two may lie in different partitions.
struct RowVersions {
    RowVersion before;
    RowVersion after;
};

// Whether all guards of a transition say yes; if not, *refused_by is the first that does not. 42501 where the caller
// may not execute one.
bool guards_allow(Binding& binding, int transition, const RowVersions& row, const char** refused_by);

// Whether one guard of a transition says yes.
bool guard_allows(Binding& binding, int transition, int guard, const RowVersions& row);

// In the order of the diagram.
void run_effects(Binding& binding, int transition, const RowVersions& row);

}  // namespace pawl
