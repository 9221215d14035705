// May ereport; owns nothing. Write access to protected tables (logs, audits, anchors of pruned logs). Their guard
// triggers reject all other writes.
#pragma once

#include "session/rights.hpp"

namespace pawl {

// Whether pawl is writing to this protected table now, or to one that it is a partition of.
bool is_writable_now(Oid relation);

// Whether a redaction is running, the only operation that may UPDATE a log.
extern bool redacting;

// Runs the work as with_rights_of does, with write access to these tables (InvalidOid: none).
void with_write_access(Oid role, Oid first, Oid second, Work work, void* argument, Reach reach = Reach::whole);

// Whether the current user may remove entries of a log or an audit: its owner and pawl_admin. Raises 42501, and 42P01
// if there is no such relation.
void check_may_remove(Oid relation);

}  // namespace pawl
