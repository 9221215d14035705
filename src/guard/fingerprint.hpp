// May ereport; owns nothing. Fingerprints of a row, by which its AFTER trigger finds out what other triggers have
// changed since its BEFORE trigger.
#pragma once

#include "guard/column_changes.hpp"

#include "catalog/member_cache.hpp"

namespace pawl {

struct Fingerprint {
    uint64 managed;  // of the columns that pawl sets: owner, lease, token, due, attempts
    uint64 others;   // of all columns but those and generated ones; 0: not taken
};

// The same for a row that moves to another partition. `changes`: values that replace those of the row; may be null.
Fingerprint fingerprint_of(const Member& member, const Binding& binding, TupleTableSlot* row,
                           const ColumnChanges* changes, bool with_others);

}  // namespace pawl
