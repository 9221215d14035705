// Neither throws nor ereports; owns nothing. See uuid_v7.hpp.
#include "pg/uuid_v7.hpp"

extern "C" {
#include "common/pg_prng.h"
}

namespace pawl {

namespace {

constexpr TimestampTz epoch = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

}  // namespace

void make_uuid_v7(TimestampTz at, pg_uuid_t* uuid) {
    // 48 bits of milliseconds, 12 bits of the fraction of a millisecond, 62 random bits (RFC 9562, method 3).
    const uint64 microseconds = static_cast<uint64>(at + epoch);
    const uint64 milliseconds = microseconds / 1000;
    const uint64 fraction = (microseconds % 1000) * 4096 / 1000;
    const uint64 high = (milliseconds << 16) | (uint64{7} << 12) | fraction;
    const uint64 low = (pg_prng_uint64(&pg_global_prng_state) >> 2) | (uint64{2} << 62);
    for (int i = 0; i < 8; ++i) {
        uuid->data[i] = static_cast<unsigned char>(high >> (56 - 8 * i));
        uuid->data[8 + i] = static_cast<unsigned char>(low >> (56 - 8 * i));
    }
}

TimestampTz time_of_uuid_v7(const pg_uuid_t* uuid) {
    uint64 high = 0;
    for (int i = 0; i < 8; ++i) high = (high << 8) | uuid->data[i];
    const uint64 microseconds = (high >> 16) * 1000 + ((high & 0xFFF) * 1000 + 4095) / 4096;
    return static_cast<TimestampTz>(microseconds) - epoch;
}

}  // namespace pawl
