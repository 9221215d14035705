// Neither throws nor ereports; owns nothing. UUIDs of version 7, which contain a time and are ordered by it.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

void make_uuid_v7(TimestampTz at, pg_uuid_t* uuid);

// The time that make_uuid_v7 put in, to the microsecond.
TimestampTz time_of_uuid_v7(const pg_uuid_t* uuid);

}  // namespace pawl
