// Seam: the CONTEXT of errors. A line "PL/pgSQL function pawl... line 12 at PERFORM" tells a user nothing: those of the
// project's own functions are left out, and the lines of the user's functions around them stay.
#pragma once

#include "pg/postgres.hpp"

namespace pawl::pg {

// The frames around the innermost calls of the project's functions in PL/pgSQL; the stack itself if there are none. May
// ereport (out of memory).
ErrorContextCallback* without_own_frames(ErrorContextCallback* stack);

// Removes the same frames from an error that has been raised; error_context_stack is what was current when the function
// was called that raised it. May ereport (out of memory).
void remove_own_context(ErrorData* error);

}  // namespace pawl::pg
