// May ereport where memory is short; owns nothing. What the BEFORE trigger of a row leaves to its AFTER trigger, by the
// old version of the row.
#pragma once

#include "catalog/member_cache.hpp"

namespace pawl {

struct HandoverKey {
    Oid relation;
    ItemPointerData version;  // the old version's place
    uint16 binding;
};

HandoverKey handover_key(const Member* member, int binding, HeapTuple version);

// The transition that the row takes, whose effects are still to be run. What a rolled-back statement left for this
// version is dropped.
void leave_effects(const HandoverKey& key, int transition);
void drop_effects(const HandoverKey& key);
bool take_effects(const HandoverKey& key, int* transition);
bool effects_are_pending() noexcept;

// What was decided when the managed columns of a row were kept that only the AFTER trigger can look at whole.
struct DecidedChange {
    HandoverKey key;
    int transition;  // no_transition: nothing was decided
    text* processor;
    Jsonb* remark;
    TimestampTz at;
};

void leave_decision(const HandoverKey& key, int transition, const text* processor, const Jsonb* remark, TimestampTz at);
DecidedChange take_decision(const HandoverKey& key);

void forget_handovers() noexcept;  // end of transaction

}  // namespace pawl
