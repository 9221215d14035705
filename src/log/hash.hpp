// May ereport; owns nothing. The hash chain of a log: each row's hash covers the row and its predecessor's hash.
#pragma once

#include "catalog/state_change.hpp"

namespace pawl {

// 16 random bytes; kept with the row until a value of it is redacted.
bytea* make_salt();

// sha256(previous || content). The content is the text that pawl._log_content gives for the same row, so that anyone
// can check a chain with plain SQL. Values that can be redacted are in it as commitments with the salt (null: as they
// are, as in version 0.0.1).
bytea* log_hash(const StateChange& change, int sort_key, TimestampTz at, const bytea* previous, const bytea* salt);

}  // namespace pawl
