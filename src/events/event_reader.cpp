// May ereport; owns nothing. See event_reader.hpp. It reads by the indexes itself: no statistics, no plans.
#include "events/event_reader.hpp"

#include <algorithm>

#include "events/outbox_epoch.hpp"

extern "C" {
#include "access/nbtree.h"
#include "utils/pg_lsn.h"
}

namespace pawl {

namespace {

// A row of pawl.outbox_commit_<n>.
struct Commit {
    uint64 place;
    uint64 txid;
    int slot;
};

bool operator<(const Commit& a, const Commit& b) {
    return a.place != b.place ? a.place < b.place : a.txid < b.txid;
}

struct Table {
    Relation events;
    Relation events_index;  // (txid, n)
    Relation commits;
    Relation commits_index;  // (txid)
    Relation places_index;   // (place, txid)
    TupleTableSlot* event;
    TupleTableSlot* commit;
};

}  // namespace

struct EventReader {
    Table tables[outbox_slots];
};

namespace {

Relation open_index(const char* table, int slot, const char* column) {
    char name[NAMEDATALEN];
    pg_snprintf(name, sizeof(name), "%s_%d_%s", table, slot, column);
    return index_open(get_relname_relid(name, get_namespace_oid("pawl", false)), AccessShareLock);
}

struct Scan {
    IndexScanDesc index;
    ScanKeyData keys[2];
    int nkeys;
};

void add_key(Scan& scan, AttrNumber column, StrategyNumber strategy, RegProcedure function, Datum value) {
    ScanKeyInit(&scan.keys[scan.nkeys++], column, strategy, function, value);
}

void begin_scan(Scan& scan, Relation table, Relation index) {
#if PG_VERSION_NUM >= 180000
    scan.index = index_beginscan(table, index, GetActiveSnapshot(), nullptr, scan.nkeys, 0);
#else
    scan.index = index_beginscan(table, index, GetActiveSnapshot(), scan.nkeys, 0);
#endif
    index_rescan(scan.index, scan.keys, scan.nkeys, nullptr, 0);
}

Commit read_commit(Table& table, int slot) {
    bool null;
    return {DatumGetLSN(slot_getattr(table.commit, 2, &null)), DatumGetUInt64(slot_getattr(table.commit, 1, &null)),
            slot};
}

// Whether a commit lies where the position has not been yet; the transaction at the position may have events left.
bool lies_ahead(const Commit& commit, const Position& position) {
    return commit.place != position.place ? commit.place > position.place : commit.txid >= position.txid;
}

// The transactions that were in progress when `seen` was taken and have committed since. They may have places of long
// ago.
int late_commits(EventReader* reader, const Interval& interval, Commit* found) {
    int n = 0;
    for (int i = 0; i < interval.seen.n; ++i) {
        const uint64 txid = interval.seen.in_progress[i];
        if (!interval.reading.sees(txid)) continue;
        for (int slot = 0; slot < outbox_slots; ++slot) {
            Table& table = reader->tables[slot];
            Scan scan = {};
            add_key(scan, 1, BTEqualStrategyNumber, F_XID8EQ, UInt64GetDatum(txid));
            begin_scan(scan, table.commits, table.commits_index);
            if (index_getnext_slot(scan.index, ForwardScanDirection, table.commit))
                found[n++] = read_commit(table, slot);
            index_endscan(scan.index);
        }
    }
    std::sort(found, found + n);
    return n;
}

// The first place of the transactions that began after `seen` was taken; false when none has committed.
bool first_place(EventReader* reader, const Interval& interval, uint64* first) {
    bool any = false;
    for (int slot = 0; slot < outbox_slots; ++slot) {
        Table& table = reader->tables[slot];
        Scan scan = {};
        add_key(scan, 1, BTGreaterEqualStrategyNumber, F_XID8GE, UInt64GetDatum(interval.seen.xmax));
        begin_scan(scan, table.commits, table.commits_index);
        while (index_getnext_slot(scan.index, ForwardScanDirection, table.commit)) {
            const Commit commit = read_commit(table, slot);
            if (!interval.reading.sees(commit.txid)) continue;
            *first = any ? Min(*first, commit.place) : commit.place;
            any = true;
        }
        index_endscan(scan.index);
    }
    return any;
}

// The commits of an interval in order: those of each table by its index on places, and the late ones.
struct Stream {
    EventReader* reader;
    const Interval* interval;
    Scan scans[outbox_slots];
    bool has[outbox_slots];
    Commit next[outbox_slots];
    Commit* late;
    int nlate;
    int at_late;
};

void advance(Stream& stream, int slot) {
    Table& table = stream.reader->tables[slot];
    const Interval& interval = *stream.interval;
    stream.has[slot] = false;
    while (index_getnext_slot(stream.scans[slot].index, ForwardScanDirection, table.commit)) {
        CHECK_FOR_INTERRUPTS();
        const Commit commit = read_commit(table, slot);
        if (commit.txid < interval.seen.xmax || !interval.reading.sees(commit.txid) ||
            !lies_ahead(commit, interval.position))
            continue;
        stream.next[slot] = commit;
        stream.has[slot] = true;
        return;
    }
}

void open_stream(Stream& stream, EventReader* reader, const Interval* interval) {
    stream.reader = reader;
    stream.interval = interval;
    stream.late = static_cast<Commit*>(palloc(sizeof(Commit) * (interval->seen.n + 1)));
    stream.nlate = late_commits(reader, *interval, stream.late);
    while (stream.at_late < stream.nlate && !lies_ahead(stream.late[stream.at_late], interval->position))
        ++stream.at_late;
    for (int slot = 0; slot < outbox_slots; ++slot) {
        Table& table = reader->tables[slot];
        add_key(stream.scans[slot], 1, BTGreaterEqualStrategyNumber, F_PG_LSN_GE,
                LSNGetDatum(Max(interval->range_place, interval->position.place)));
        begin_scan(stream.scans[slot], table.commits, table.places_index);
        advance(stream, slot);
    }
}

void close_stream(Stream& stream) {
    for (Scan& scan : stream.scans) index_endscan(scan.index);
}

bool next_commit(Stream& stream, Commit* commit) {
    int best = -1;
    for (int slot = 0; slot < outbox_slots; ++slot)
        if (stream.has[slot] && (best < 0 || stream.next[slot] < stream.next[best])) best = slot;
    if (stream.at_late < stream.nlate && (best < 0 || stream.late[stream.at_late] < stream.next[best])) {
        *commit = stream.late[stream.at_late++];
        return true;
    }
    if (best < 0) return false;
    *commit = stream.next[best];
    advance(stream, best);
    return true;
}

// The events of one transaction; false when the visitor has enough.
bool visit_events(EventReader* reader, const Commit& commit, Position* position, EventVisitor visit, void* argument) {
    Table& table = reader->tables[commit.slot];
    const bool begun = commit.place == position->place && commit.txid == position->txid;
    *position = {commit.place, commit.txid, begun ? position->n : 0};
    Scan scan = {};
    add_key(scan, 1, BTEqualStrategyNumber, F_XID8EQ, UInt64GetDatum(commit.txid));
    add_key(scan, 2, BTGreaterStrategyNumber, F_INT4GT, Int32GetDatum(position->n));
    begin_scan(scan, table.events, table.events_index);
    bool more = true;
    while (more && index_getnext_slot(scan.index, ForwardScanDirection, table.event)) {
        CHECK_FOR_INTERRUPTS();
        bool null;
        position->n = DatumGetInt32(slot_getattr(table.event, 3, &null));
        more = visit(table.event, argument);
    }
    index_endscan(scan.index);
    return more;
}

}  // namespace

// Locks in the order in which pawl.prune_events takes them.
EventReader* open_events() {
    auto* reader = static_cast<EventReader*>(palloc0(sizeof(EventReader)));
    for (int slot = 0; slot < outbox_slots; ++slot) {
        Table& table = reader->tables[slot];
        table.events = open_outbox("outbox", slot + 1, AccessShareLock);
        table.commits = open_outbox("outbox_commit", slot + 1, AccessShareLock);
        table.events_index = open_index("outbox", slot + 1, "txid");
        table.commits_index = open_index("outbox_commit", slot + 1, "txid");
        table.places_index = open_index("outbox_commit", slot + 1, "place");
        table.event = table_slot_create(table.events, nullptr);
        table.commit = table_slot_create(table.commits, nullptr);
    }
    return reader;
}

void close_events(EventReader* reader) {
    for (Table& table : reader->tables) {
        ExecDropSingleTupleTableSlot(table.event);
        ExecDropSingleTupleTableSlot(table.commit);
        index_close(table.places_index, AccessShareLock);
        index_close(table.commits_index, AccessShareLock);
        index_close(table.events_index, AccessShareLock);
        table_close(table.commits, AccessShareLock);
        table_close(table.events, AccessShareLock);
    }
}

bool begin_interval(EventReader* reader, Interval* interval) {
    interval->reading = active_event_snapshot(outbox_base(Mark::none));
    interval->position = {};
    auto* late = static_cast<Commit*>(palloc(sizeof(Commit) * (interval->seen.n + 1)));
    const bool any_late = late_commits(reader, *interval, late) > 0;
    const bool any_new = first_place(reader, *interval, &interval->range_place);
    if (!any_new) interval->range_place = PG_INT64_MAX;
    return any_late || any_new;
}

bool read_interval(EventReader* reader, Interval* interval, EventVisitor visit, void* argument) {
    Stream stream = {};
    open_stream(stream, reader, interval);
    Commit commit;
    bool more = true;
    while (more && next_commit(stream, &commit))
        more = visit_events(reader, commit, &interval->position, visit, argument);
    close_stream(stream);
    return more;
}

}  // namespace pawl
