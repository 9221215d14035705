// May ereport; owns nothing. Makes state changes of rows, with their attribution and metadata.
#pragma once

#include "catalog/state_change.hpp"
#include "session/context.hpp"

namespace pawl {

// Makes a state change in the current memory context; reads the key from the slot. `overrides`: attribution by a
// function's arguments; may be null. Raises 23502 if a key column is null.
StateChange* make_change(const Binding& binding, TupleTableSlot* row, const Outcome& outcome,
                         const Attribution& attribution, const AttributionOverride* overrides);

// The same in another memory context, with an attribution by the current settings that lives there too.
StateChange* make_change_in(MemoryContext context, const Binding& binding, TupleTableSlot* row, const Outcome& outcome,
                            const AttributionOverride* overrides);

// The name of a reserved event, allocated once a session: *made is null before.
text* reserved_event(text** made, const char* name);

// pawl.attach: the history of a row begins that was there before its log.
text* attach_event();

// The hash of the key, for subjects in memory; of a row, false if a part of its key is null.
uint32 hash_of_key(const StateChange& change);
bool hash_of_row(const Binding& binding, TupleTableSlot* row, uint32* hash);

}  // namespace pawl
