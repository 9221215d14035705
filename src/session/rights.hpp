// May ereport; owns nothing. Work that is done with the rights of another role than the caller's.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

using Work = void (*)(void* argument);

// How far code of another role than the caller reaches. confined: a security-restricted operation, so that nothing of
// it is left for later (deferred triggers, held cursors), when it would run as the caller. Upkeep is confined. A role
// that calls it itself never is.
enum class Reach { whole, confined };

// Does the work with the rights of a role, and search_path pg_catalog, so that no code of others runs with rights that
// are not theirs: triggers on a record are its owner's. Settings that the work makes end with it.
void with_rights_of(Oid role, Work work, void* argument, Reach reach = Reach::whole);

Oid owner_of(Oid relation);

}  // namespace pawl
