// May ereport; owns nothing. Which state an event leads a row to.
#pragma once

#include "row_query.hpp"

namespace pawl {

struct Destination {
    core::StateId to;         // no_state: the event does not move this row
    core::StateId first;      // the first state it leads to, whatever guards say; no_state: it leads nowhere from here
    const char* refused_by;   // the first guard that said no
};

// Guards decide where an event leads to several states. What a guard raises passes through.
Destination choose_destination(const Target& target, const text* event, const FoundRow& row);

// Raises PW001 when the event leads nowhere from here, PW003 when no guard says yes.
[[noreturn]] void refuse_destination(const Target& target, const text* event, const FoundRow& row, const Destination& destination);

// Both in one: the state, or the error.
core::StateId find_destination(const Target& target, const text* event, const FoundRow& row);

// 42, or (1, a) for a composite key.
char* describe_key(const Attachment& attachment, const Datum* key);

[[noreturn]] void no_such_row(const Target& target, const Datum* key);

}  // namespace pawl
