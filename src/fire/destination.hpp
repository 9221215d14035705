// May ereport; owns nothing. Which state an event leads a row to.
#pragma once

#include "fire/row_query.hpp"
#include "guard/rejection.hpp"

namespace pawl {

// Where an event leads a row. `to` is no_state if it leads nowhere; then `guard` is the first guard that rejected, on
// the way to `rejected` (null: the event has no transition from this state).
struct Destination {
    core::StateId to;
    core::StateId rejected;
    const char* guard;
    OwnershipFault fault;  // not none: ownership or attempts rejected first
    Ownership ownership;   // what `fault` was decided by, if the binding has managed columns
};

// Guards are called only if the event leads to several states, or if all guards are wanted: they are called again when
// the row moves. `intent` names the processor.
Destination look_for_destination(const Target& target, const text* event, const FoundRow& row, const Intent* intent,
                                 bool ask_all_guards);

// Why the row stays. The destination must be no_state.
Rejection rejected_at(const Target& target, const text* event, const FoundRow& row, const Destination& destination);

// The same for one row that is to move now. Raises PW001 if the event leads nowhere from this state, PW003 if no guard
// allows it.
core::StateId find_destination(const Target& target, const text* event, const FoundRow& row, const Intent* intent);

[[noreturn]] void no_such_row(const Target& target, const Datum* key);

}  // namespace pawl
