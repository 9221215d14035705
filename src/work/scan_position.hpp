// May ereport; owns nothing. Remembers where the last claim of this session, or its last firing of timers, ended. It is
// used while the head of the index is full of dead rows that an old snapshot keeps from being vacuumed. The same is
// done for the owners of leases. docs/internals/scan-positions.md explains the algorithm.
#pragma once

#include "fire/batch.hpp"

namespace pawl {

struct ScanPosition;

// The scan position of claims by an event from a queue (null: the table has no queues), and that of timers. Each lives
// as long as the binding is cached.
ScanPosition* claim_position(Binding& binding, const text* event, const text* queue);
ScanPosition* timer_position(Binding& binding);

// Picks at most so many rows, from the head of the index (`behind` null) or from one of the ranges behind a scan
// position.
using PickRange = Batch (*)(const void* request, const ScanPosition* behind, int level, int most);

// Picks the next rows, from the head or behind the scan position, and advances the scan position past them.
Batch pick_next(Binding& binding, ScanPosition& position, PickRange pick, const void* request, int most);

// Must be called after a rollback: the rows whose claims it undid lie before the scan position.
void distrust_scan_positions() noexcept;

// The conditions for rows behind the scan position. Their ranges, level 0 to levels - 1, follow each other in the order
// of the index.
int position_levels(const Binding& binding, const ScanPosition& position);
void append_behind(StringInfo out, const Binding& binding, const ScanPosition& position, int level,
                   Parameters& parameters);

// When the head is read again; DT_NOEND: it is not being left out.
TimestampTz head_again(const ScanPosition& position);

// Measures a scan of the head. If the scan touched many more pages than its rows need, it is not repeated until twenty
// times its duration has passed.
struct HeadScan {
    int64 pages;
    TimestampTz begun;
};
HeadScan begin_head_scan();
TimestampTz end_head_scan(const HeadScan& scan, int rows);  // when the scan may be repeated; 0: at once

// The owner of rows of a binding, and the earliest of its leases.
struct RowOwner {
    Datum owner;
    TimestampTz lease;  // the earliest
    bool has_lease;
};

struct RowOwners {
    RowOwner* items;
    int n;
    TimestampTz complete_again;  // when the whole index is read again; DT_NOEND: the list is complete
    bool remembered;             // only expired leases of known owners were read
};

// Reads the index on owner and lease. Must run inside SPI. If dead rows that an old snapshot keeps make that slow, the
// result is remembered. Until twenty times the duration of the scan has passed, this session reads on from there, and
// only for those owners: earlier leases have been read, and later leases have not expired.
RowOwners find_owners(const Target& target);

}  // namespace pawl
