// May ereport; owns nothing. Which state an event leads a row to.
#pragma once

#include "row_query.hpp"

namespace pawl {

// Guards decide where an event leads to several states. Raises PW001 when it leads nowhere from here, PW003 when no guard says yes.
core::StateId find_destination(const Target& target, const text* event, const FoundRow& row);

// 42, or (1, a) for a composite key.
char* describe_key(const Attachment& attachment, const Datum* key);

[[noreturn]] void no_such_row(const Target& target, const Datum* key);

}  // namespace pawl
