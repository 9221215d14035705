// May ereport; owns nothing. The events between two snapshots, in the order of commits.
#pragma once

#include "events/outbox.hpp"
#include "events/transaction_numbers.hpp"

namespace pawl {

// A position in the order of commits, and within a transaction. The event at the position and all before it have been
// read.
struct Position {
    uint64 place;
    uint64 txid;
    int32 n;
};

// The transactions that `reading` sees and `seen` does not.
struct Interval {
    EventSnapshot seen;
    EventSnapshot reading;
    uint64 range_place;  // the first place of the transactions from seen.xmax on
    Position position;
};

// The open tables of the outbox, in the memory context current at open_events.
struct EventReader;

EventReader* open_events();
void close_events(EventReader* reader);

// Begins an interval from what has been seen to now. Returns false if there is nothing in it.
bool begin_interval(EventReader* reader, Interval* interval);

// Receives an event, a row of pawl.outbox_1. Returns false to stop.
using EventVisitor = bool (*)(TupleTableSlot* event, void* argument);

// Visits the events of the interval from its position on, and advances the position. Returns true if none is left.
bool read_interval(EventReader* reader, Interval* interval, EventVisitor visit, void* argument);

}  // namespace pawl
