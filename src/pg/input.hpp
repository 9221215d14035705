// Seam. May ereport. Checks values that users write, without raising an error for invalid text. Catching an error
// instead would need a subtransaction, because it could be any other error, such as a cancel.
#pragma once

#include "pg/postgres.hpp"

namespace pawl::pg {

struct Unreadable {
    int sqlstate;
    const char* detail;  // null: none
};

// Whether the type jsonb can hold the text; if not, *why is set.
bool is_jsonb(const char* value, Unreadable* why);

// Whether the text is an interval.
bool is_interval(const char* value);

}  // namespace pawl::pg
