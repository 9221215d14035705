// May ereport; owns nothing. How long a jsonb value is as text, which it can be by far more than it is stored in.
#pragma once

#include "pg/postgres.hpp"

namespace pawl::dag {

// At most how long a jsonb value is as text: numbers, separators and control characters are counted as the longest of
// their kind, and below a sixteenth of `most` all characters as control characters. A value that is longer than `most`
// is not read to its end.
int64 json_text_size(Datum value, int64 most);

}  // namespace pawl::dag
