// May ereport; owns nothing. Who owns rows of a binding, and when the first of his leases ends.
#pragma once

#include "fire/batch.hpp"

namespace pawl {

struct RowOwner {
    Datum owner;
    TimestampTz lease;  // the earliest among his leases
    bool has_lease;
};

struct RowOwners {
    RowOwner* items;
    int n;
    TimestampTz complete_again;  // when others are looked for again; DT_NOEND: these are all
    bool remembered;             // only leases that have run out were looked for
};

// Read from the index on owner and lease. Where dead rows that an old snapshot keeps make that slow, what was read is
// remembered: until twenty times its duration has passed, this session reads on from there to the time that is now, and
// of those owners alone: what lies before was read, and leases to come can wait, however many dead ones lie in front of
// them. Inside SPI.
RowOwners find_owners(const Target& target);

}  // namespace pawl
