// May ereport; owns nothing. The hash chain of a log: each row's hash covers the row and its predecessor's hash.
#pragma once

#include "journal.hpp"

namespace pawl {

// sha256(previous || content). The content is the text that pawl._log_content gives for the same row, so that anyone can check
// a chain with plain SQL.
bytea* log_hash(const Hop& hop, int sort_key, TimestampTz at, const bytea* previous);

}  // namespace pawl
