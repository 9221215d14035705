// May ereport; owns nothing. The numbers of transactions in the outbox: the server's own, until a restore brings rows
// whose numbers are another server's; from then on they are counted from a higher base.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// What is added to transaction numbers and places in the write-ahead log. `mark`: leaves a row for others if there is
// none yet.
enum class Mark { leave, none };
uint64 outbox_base(Mark mark);

Relation open_outbox(const char* name, int slot, LOCKMODE lock);  // pawl.<name>_<slot>
int current_outbox_slot();

}  // namespace pawl
