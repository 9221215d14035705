// May ereport; owns nothing. Records: tables that only pawl writes (logs, audits, what was pruned). Their guards refuse
// everybody else; here they are opened for a statement of pawl's own.
#pragma once

#include "session/rights.hpp"

namespace pawl {

// Whether pawl itself is writing this record now, or the one that it is a partition of.
bool is_writable_now(Oid relation);

// Whether what it writes are redactions, which alone may UPDATE a log.
extern bool redacting;

// Does the work with the rights of a role, as with_rights_of, with these records open (InvalidOid: none).
void with_write_access(Oid role, Oid first, Oid second, Work work, void* argument, Reach reach = Reach::whole);

}  // namespace pawl
