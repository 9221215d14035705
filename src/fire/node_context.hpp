// May ereport; owns nothing. An UPDATE of a distributed table is run by sessions on other nodes, to which the intent of
// a function does not reach. It travels as settings of the transaction, which Citus sends along.
#pragma once

#include "guard/intent.hpp"

namespace pawl {

// Sends the intent and the context of this session. Must run inside SPI.
void send_context(const Intent& intent);

// Sends one setting of this transaction, if this database has Citus.
void send_setting(const char* setting, const char* value);

// Sends the context of this session as it was before.
void send_former_context();

}  // namespace pawl
