// Seam. May ereport. Reads values that users write. A text that is no value of the type is an answer and not an error,
// because an error that is caught without a subtransaction may be any other, a cancel among them.
#pragma once

#include "pg/postgres.hpp"

namespace pawl::pg {

struct Unreadable {
    int sqlstate;
    const char* detail;  // null: none
};

// Whether the type jsonb can hold the text; if not, *why says why not.
bool is_jsonb(const char* value, Unreadable* why);

// Whether the text is an interval.
bool is_interval(const char* value);

}  // namespace pawl::pg
