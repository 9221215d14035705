// May ereport; owns nothing. Writes pawl's own catalog with the rights of its owner, after checking the caller's
// rights.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// Raises 42P01 if there is no such relation, 42501 if the current user lacks the rights of its owner.
void require_owner(Oid relation);

// Whether the current user may define, drop or give away machines of the role with this name. For a role that does not
// exist, the extension's owner may.
bool speaks_for(const char* owner);

// Raises 42501 unless the current user may act for the owner of a machine (that of its newest version).
void require_machine_owner(const char* machine, const char* owner);

// Runs a statement with the rights of the catalog's owner and search_path pg_catalog; returns the number of rows.
// Neither the statement nor its triggers may run code of a user.
uint64 run_as_catalog_owner(const char* query, int n, Oid* types, Datum* values, const char* nulls);

}  // namespace pawl
