// May ereport; owns nothing. Work that is done with the rights of another role than the caller's.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

using Work = void (*)(void* argument);

// Does the work with the rights of a role, and search_path pg_catalog, so that no code of others runs with rights that are not
// theirs: triggers on a record are its owner's.
void with_rights_of(Oid role, Work work, void* argument);

Oid owner_of(Oid relation);

}  // namespace pawl
