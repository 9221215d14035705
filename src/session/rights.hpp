// May ereport; owns nothing. Runs work with the rights of another role than the caller.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

using Work = void (*)(void* argument);

// How far code of another role reaches. confined: a security-restricted operation, which can leave nothing (deferred
// triggers, held cursors) to run later as the caller. Maintenance is confined. The caller's own role never is.
// confined_by_policies: also by forced row security of the role's own tables, which maintenance looks past.
enum class Reach { whole, confined, confined_by_policies };

// Runs the work with the rights of a role and search_path pg_catalog. Use the table's owner where triggers may fire, so
// that its code runs with its own rights. Settings that the work changes are restored.
void with_rights_of(Oid role, Work work, void* argument, Reach reach = Reach::whole);

Oid owner_of(Oid relation);

}  // namespace pawl
