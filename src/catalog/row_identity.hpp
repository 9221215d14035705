// May ereport; owns nothing. The key that identifies the rows of a binding, and keys and states as text for messages.
#pragma once

#include "catalog/member_cache.hpp"

namespace pawl {

// Whether an index of the table guarantees that keys are unique.
bool key_is_unique(const Binding& binding);

char* key_text(const Binding& binding, int key, Datum value);  // of one key column
char* describe_key(const Binding& binding, const Datum* key);  // 42, or (1, a) for a composite key
const char* quoted_state(const text* state);                   // "paid", or null

}  // namespace pawl
