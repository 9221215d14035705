// May ereport; owns nothing. Which database of several a namespace is placed in, as this database knows it: the tables
// pawl.database and pawl.placement, cached by each backend.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// Raises PW009 if this database is one of several, and the namespace is placed in another one or in none.
void require_here(const char* kind, const char* space);

// The same for the queue of a claim, where the queues of the table are namespaces (pawl.placed_table). queue may be
// null.
void require_queue_here(Oid relation, const text* queue);

}  // namespace pawl
