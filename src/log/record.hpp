// May ereport; owns nothing. Records: tables that only pawl writes (logs, audits, what was pruned). Their guards refuse everybody
// else; here they are opened for a statement of pawl's own.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// Whether pawl itself is writing this record now, or the one that it is a partition of.
bool record_is_open(Oid relation);

// Whether what it writes are redactions, which alone may UPDATE a log.
extern bool redacting;

using Work = void (*)(void* argument);

// How far code of another role than the caller reaches. confined: a security-restricted operation, so that nothing of it is left for
// later (deferred triggers, held cursors), when it would run as the caller. Upkeep is confined. A role that calls it itself never is.
enum class Reach { whole, confined };

// Does the work with the rights of a role, and search_path pg_catalog, so that no code of others runs with rights that are not
// theirs: triggers on a record are its owner's. Settings that the work makes end with it.
void with_rights_of(Oid role, Work work, void* argument, Reach reach = Reach::whole);

// The same with these records open (InvalidOid: none).
void with_open_records(Oid role, Oid first, Oid second, Work work, void* argument, Reach reach = Reach::whole);

Oid owner_of(Oid relation);

}  // namespace pawl
