// May ereport; owns nothing. What a backend knows of the result audits of logs.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

void register_audit_callbacks();

}  // namespace pawl
