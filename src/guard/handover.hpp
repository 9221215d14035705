// May ereport where memory is short; owns nothing. What the BEFORE trigger of a row leaves for its AFTER trigger, by
// the old version of the row.
#pragma once

#include "guard/fingerprint.hpp"
#include "guard/path.hpp"

namespace pawl {

struct HandoverKey {
    Oid relation;
    ItemPointerData version;  // ctid of the old version
    uint16 binding;
};

HandoverKey handover_key(const Member* member, int binding, HeapTuple version);

// Leaves the effects of transitions to be run. Replaces what a rolled-back statement left for this version.
void leave_effects(const HandoverKey& key, const Path& path);
void drop_effects(const HandoverKey& key);
bool take_effects(const HandoverKey& key, Transitions* transitions);
bool effects_are_pending() noexcept;

// What was decided while managed columns were set, for a row that is validated by its AFTER trigger.
struct Decided {
    Path path;  // of no steps: the row takes no transition
    Fingerprint fingerprint;
};

// Replaces what a statement has left whose row was not stored. Taking it returns false if there is nothing.
void leave_decision(const HandoverKey& key, const Decided& decided);
bool take_decision(const HandoverKey& key, Decided* decided);

void forget_handovers() noexcept;  // end of transaction

}  // namespace pawl
