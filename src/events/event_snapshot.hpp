// May ereport; owns nothing. Snapshots by the numbers of the outbox: which transactions were visible at a time.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// As pg_snapshot: all below xmin and none from xmax on, but for those in progress, which are sorted.
struct EventSnapshot {
    uint64 xmin;
    uint64 xmax;
    int n;
    uint64* in_progress;

    bool sees(uint64 txid) const;
};

// What the active snapshot sees, without the transaction itself: its own events are news when it has committed.
EventSnapshot active_event_snapshot(uint64 base);

// To and from the text of a pg_snapshot.
char* print_snapshot(const EventSnapshot& snapshot);
EventSnapshot parse_snapshot(const char* printed);

}  // namespace pawl
