// May ereport; owns nothing. The rights on an enforced table that a statement needs, checked before it runs: the
// server's own error would name neither the right nor the role, and quote the statement. Each raises 42501 with the
// grant to give.
#pragma once

#include "fire/target.hpp"

namespace pawl {

void require_select(const Target& target);

// SELECT, and UPDATE of some column: what locking a row needs.
void require_lock(const Target& target);

void require_update(const Target& target, AttrNumber column);

}  // namespace pawl
