// May ereport; owns nothing. Writes pawl's own catalog with the rights of its owner, after the caller's right was
// checked.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// 42P01 where there is no such relation, 42501 where the current user has not the rights of its owner.
void require_owner(Oid relation);

// Whether the current user may define, drop or give away what a role owns by its name. A role that is gone is stood in
// for by the extension's owner.
bool speaks_for(const char* owner);

// 42501 unless the current user speaks for the owner of the newest version of a machine.
void require_machine_owner(const char* machine, const char* owner);

// Runs a statement with the rights of the catalog's owner and search_path pg_catalog; returns the number of rows. No
// code of a user may be in it, or in what it fires.
uint64 run_as_catalog_owner(const char* query, int n, Oid* types, Datum* values, const char* nulls);

}  // namespace pawl
