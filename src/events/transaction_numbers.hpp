// May ereport; owns nothing. The numbers of transactions in the outbox, and snapshots by these numbers. They are the
// server's own numbers until a restore brings in rows of another server; from then on they are counted from a higher
// base.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// What is added to transaction numbers and to places in the write-ahead log. With Mark::leave, stores the epoch in
// pawl.outbox_epoch if this cluster has none there.
enum class Mark { leave, none };
uint64 outbox_base(Mark mark);

Relation open_outbox(const char* name, int slot, LOCKMODE lock);  // pawl.<name>_<slot>
int current_outbox_slot();

// Like pg_snapshot: contains all transactions below xmin and none from xmax on, except those in progress, which are
// sorted.
struct EventSnapshot {
    uint64 xmin;
    uint64 xmax;
    int n;
    uint64* in_progress;

    bool sees(uint64 txid) const;
};

// What the active snapshot sees, without the current transaction: its own events count only after its commit.
EventSnapshot active_event_snapshot(uint64 base);

// To and from the text of a pg_snapshot.
char* print_snapshot(const EventSnapshot& snapshot);
EventSnapshot parse_snapshot(const char* printed);

}  // namespace pawl
