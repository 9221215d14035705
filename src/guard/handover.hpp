// May ereport where memory is short; owns nothing. What the BEFORE trigger of a row leaves for its AFTER trigger, by
// the old version of the row.
#pragma once

#include "catalog/member_cache.hpp"

namespace pawl {

struct HandoverKey {
    Oid relation;
    ItemPointerData version;  // ctid of the old version
    uint16 binding;
};

HandoverKey handover_key(const Member* member, int binding, HeapTuple version);

// Leaves the effects of a transition to be run. Replaces what a rolled-back statement left for this version.
void leave_effects(const HandoverKey& key, int transition);
void drop_effects(const HandoverKey& key);
bool take_effects(const HandoverKey& key, int* transition);
bool effects_are_pending() noexcept;

// A decision made while setting managed columns, for a row that is validated by its AFTER trigger.
struct DecidedChange {
    HandoverKey key;
    int transition;  // no_transition: nothing was decided
    text* processor;
    Jsonb* added;
    TimestampTz at;
};

void leave_decision(const HandoverKey& key, int transition, const text* processor, const Jsonb* added, TimestampTz at);
DecidedChange take_decision(const HandoverKey& key);

void forget_handovers() noexcept;  // end of transaction

}  // namespace pawl
