// May ereport; owns nothing. Generated columns of a row that is not written yet: guards must see them as they will be
// stored.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

bool has_generated_columns(Relation relation) noexcept;

// The row with its generated columns computed anew; in a BEFORE trigger they still are those of the old version.
HeapTuple with_generated_columns(Relation relation, HeapTuple row);

}  // namespace pawl
