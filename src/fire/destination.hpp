// May ereport; owns nothing. Which state an event leads a row to.
#pragma once

#include "fire/row_query.hpp"
#include "guard/rejection.hpp"

namespace pawl {

// Where an event leads a row; `to` is no_state when it leads nowhere, and then `guard` is the first that said no on the
// way to `refused` (null: the event has no transition from here).
struct Destination {
    core::StateId to;
    core::StateId refused;
    const char* guard;
    OwnershipFault fault;  // ownership or attempts said no first
    Ownership ownership;   // what they were judged by, where columns are kept
};

// Guards are asked only where an event leads to several states, unless all of them are wanted: they are asked again
// when the row moves. `intent` says who acts.
Destination look_for_destination(const Target& target, const text* event, const FoundRow& row, const Intent* intent,
                                 bool ask_all_guards);

// Why the row stays, of a destination that is no_state.
Rejection rejected_at(const Target& target, const text* event, const FoundRow& row, const Destination& destination);

// The same for one row that is to move now. Raises PW001 when it leads nowhere from here, PW003 when no guard says yes.
core::StateId find_destination(const Target& target, const text* event, const FoundRow& row, const Intent* intent);

[[noreturn]] void no_such_row(const Target& target, const Datum* key);

}  // namespace pawl
