// May ereport; owns nothing. The events between two snapshots, in the order of commits.
#pragma once

#include "events/event_snapshot.hpp"
#include "events/outbox.hpp"

namespace pawl {

// A place in the order of commits, and within a transaction; all before it has been read, and it too.
struct Position {
    uint64 place;
    uint64 txid;
    int32 n;
};

// Transactions that `reading` sees and `seen` does not.
struct Interval {
    EventSnapshot seen;
    EventSnapshot reading;
    uint64 range_place;  // the first of those from seen.xmax on
    Position position;
};

// Open tables of the outbox.
struct EventReader;

EventReader* open_events();
void close_events(EventReader* reader);

// Begins an interval from what has been seen to now; false when there is nothing in it.
bool begin_interval(EventReader* reader, Interval* interval);

// What becomes of an event: a row of pawl.outbox_1. False: that is enough.
using EventVisitor = bool (*)(TupleTableSlot* event, void* argument);

// Visits the events of the interval from its position on, and moves that along. True when none is left.
bool read_interval(EventReader* reader, Interval* interval, EventVisitor visit, void* argument);

}  // namespace pawl
