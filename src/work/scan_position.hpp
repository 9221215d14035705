// May ereport; owns nothing. Where the last claim of this session, or the last firing of timers, ended: for the time in
// which the head of their index is full of dead rows that an old snapshot keeps from being cleaned away.
#pragma once

#include "fire/batch.hpp"

namespace pawl {

struct ScanPosition;

// The scan position of claims by an event from a queue (null: there is none), and that of timers.
ScanPosition* claim_position(Binding& binding, const text* event, const text* queue);
ScanPosition* timer_position(Binding& binding);

// Picks at most so many rows from the head of the index (`behind` null), or from one of the ranges behind a scan
// position.
using PickRange = Batch (*)(const void* request, const ScanPosition* behind, int level, int most);

// Picks the next rows, from the head or behind the scan position, and puts the scan position behind them.
Batch pick_next(Binding& binding, ScanPosition& position, PickRange pick, const void* request, int most);

// After a rollback: what it took is to be found again.
void distrust_scan_positions() noexcept;

// Conditions on rows behind the scan position, the nearest first: their ranges follow each other in the order of the
// index. Level 0 to levels - 1.
int position_levels(const Binding& binding, const ScanPosition& position);
void append_behind(StringInfo out, const Binding& binding, const ScanPosition& position, int level,
                   Parameters& parameters);

// When the head is looked at again; DT_NOEND: it is not left out.
TimestampTz head_again(const ScanPosition& position);

// What was read to find rows, begun before and ended after: a scan of the head that touched many more pages than its
// rows need is not repeated until twenty times its duration has passed.
struct HeadScan {
    int64 pages;
    TimestampTz begun;
};
HeadScan begin_head_scan();
TimestampTz end_head_scan(const HeadScan& scan, int rows);  // from when on it may be repeated; 0: at once

}  // namespace pawl
