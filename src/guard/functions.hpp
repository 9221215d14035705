// May ereport; owns nothing. Guards and effects: the functions of a machine's transitions, called with the caller's
// rights.
#pragma once

#include "catalog/member_cache.hpp"

namespace pawl {

// One version of a row, in the row type of its member table.
struct RowVersion {
    HeapTuple tuple;  // null: there is no such version
    TupleDesc descriptor;
    TupleConversionMap* to_root;  // null: the row type is the root's
};

// The arguments of guards and effects. `before` is empty for a new row; the two may be in different partitions.
struct RowVersions {
    RowVersion before;
    RowVersion after;
};

// Whether all guards of a transition return true; if not, *rejected_by names the first that does not. Raises 42501 if
// the caller may not execute one.
bool guards_allow(Binding& binding, int transition, const RowVersions& row, const char** rejected_by);

// Whether one guard of a transition returns true.
bool guard_allows(Binding& binding, int transition, int guard, const RowVersions& row);

// Runs the effects of a transition, in the order of its label.
void run_effects(Binding& binding, int transition, const RowVersions& row);

}  // namespace pawl
