// May ereport; owns nothing. The cache of the result audits of logs.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

void register_audit_callbacks();

}  // namespace pawl
