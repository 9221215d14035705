// May ereport; owns nothing. Generated columns of a row that is not yet written, which guards see as they will be
// stored.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

bool has_generated_columns(Relation relation) noexcept;

// The row with its generated columns computed; in a BEFORE trigger they still have the values of the old version.
HeapTuple with_generated_columns(Relation relation, HeapTuple row);

}  // namespace pawl
