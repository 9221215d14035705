// May ereport; owns nothing. See transaction_numbers.hpp.
#include "events/transaction_numbers.hpp"

#include <algorithm>

#include "catalog/catalog.hpp"
#include "pg/arguments.hpp"

extern "C" {
#include "access/transam.h"
#include "access/xlog.h"
#include "utils/fmgrprotos.h"
}

namespace pawl {

namespace {

constexpr int epoch_bits =
    56;  // bits of a number that are the server's own; places and transaction numbers stay below 2^63
constexpr int last_epoch = 127;

[[noreturn]] void report_missing(const char* table) {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("table pawl.%s is missing", table),
                    errdetail("The installed SQL objects and the shared library are of different versions."),
                    errhint("ALTER EXTENSION pawl UPDATE;")));
}

Relation open_catalog(const char* table, LOCKMODE lock) {
    const Oid relid = catalog_table(table);
    if (!OidIsValid(relid)) report_missing(table);
    return table_open(relid, lock);
}

void cluster_name(char (&name)[32]) {
    pg_snprintf(name, sizeof(name), UINT64_FORMAT, GetSystemIdentifier());
}

struct Epochs {
    int own;  // 0: none
    int latest;
};

// A row that a dump brought in names a transaction that did not write it. So does a row that a copy of the whole
// cluster received from its original after they parted.
Epochs read_epochs() {
    char cluster[32];
    cluster_name(cluster);
    Relation relation = open_catalog("outbox_epoch", AccessShareLock);
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, snapshot, 0, nullptr);
    Epochs epochs = {0, 0};
    HeapTuple tuple;
    while (HeapTupleIsValid(tuple = systable_getnext(scan))) {
        bool null;
        const int epoch = DatumGetInt32(heap_getattr(tuple, 1, RelationGetDescr(relation), &null));
        const bool here =
            strcmp(TextDatumGetCString(heap_getattr(tuple, 2, RelationGetDescr(relation), &null)), cluster) == 0;
        const TransactionId written_by =
            DatumGetTransactionId(heap_getattr(tuple, 3, RelationGetDescr(relation), &null));
        if (here && HeapTupleHeaderGetRawXmin(tuple->t_data) == written_by) epochs.own = Max(epochs.own, epoch);
        epochs.latest = Max(epochs.latest, epoch);
    }
    systable_endscan(scan);
    UnregisterSnapshot(snapshot);
    table_close(relation, AccessShareLock);
    return epochs;
}

void record_epoch(int epoch) {
    char cluster[32];
    cluster_name(cluster);
    Relation relation = open_catalog("outbox_epoch", RowExclusiveLock);
    Datum values[3] = {Int32GetDatum(epoch), CStringGetTextDatum(cluster),
                       TransactionIdGetDatum(GetCurrentTransactionId())};
    bool nulls[3] = {};
    simple_heap_insert(relation, heap_form_tuple(RelationGetDescr(relation), values, nulls));
    table_close(relation, NoLock);
}

// The 64-bit number of a transaction that is running or ran lately.
uint64 widen(TransactionId xid, FullTransactionId next) {
    uint64 epoch = EpochFromFullTransactionId(next);
    if (xid > XidFromFullTransactionId(next)) --epoch;
    return (epoch << 32) | xid;
}

}  // namespace

uint64 outbox_base(Mark mark) {
    const Epochs epochs = read_epochs();
    const bool known = epochs.own > 0 && epochs.own == epochs.latest;
    const int epoch = known ? epochs.own : epochs.latest + 1;
    if (epoch > last_epoch)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("the outbox was restored into another cluster %d times", last_epoch),
                        errhint("Read and drop all consumers, then as a superuser: TRUNCATE pawl.outbox_epoch;")));
    // Two transactions that begin an epoch at the same time begin the same one.
    if (!known && mark == Mark::leave) record_epoch(epoch);
    return static_cast<uint64>(epoch - 1) << epoch_bits;
}

Relation open_outbox(const char* name, int slot, LOCKMODE lock) {
    char table[NAMEDATALEN];
    pg_snprintf(table, sizeof(table), "%s_%d", name, slot);
    return open_catalog(table, lock);
}

int current_outbox_slot() {
    Relation relation = open_catalog("outbox_slot", AccessShareLock);
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, snapshot, 0, nullptr);
    HeapTuple tuple = systable_getnext(scan);
    bool null;
    const int slot =
        HeapTupleIsValid(tuple) ? DatumGetInt32(heap_getattr(tuple, 1, RelationGetDescr(relation), &null)) : 1;
    systable_endscan(scan);
    UnregisterSnapshot(snapshot);
    table_close(relation, AccessShareLock);
    return slot;
}

bool EventSnapshot::sees(uint64 txid) const {
    if (txid < xmin) return true;
    if (txid >= xmax) return false;
    return !std::binary_search(in_progress, in_progress + n, txid);
}

EventSnapshot active_event_snapshot(uint64 base) {
    Snapshot active = GetActiveSnapshot();
    const FullTransactionId next = ReadNextFullTransactionId();
    EventSnapshot made = {base + widen(active->xmin, next), base + widen(active->xmax, next), 0, nullptr};
    made.in_progress = static_cast<uint64*>(palloc(sizeof(uint64) * (active->xcnt + 1)));
    for (uint32 i = 0; i < active->xcnt; ++i) {
        const uint64 txid = base + widen(active->xip[i], next);
        if (txid < made.xmax) made.in_progress[made.n++] = txid;
    }
    const FullTransactionId mine = GetTopFullTransactionIdIfAny();
    if (FullTransactionIdIsValid(mine) && base + U64FromFullTransactionId(mine) < made.xmax)
        made.in_progress[made.n++] = base + U64FromFullTransactionId(mine);
    std::sort(made.in_progress, made.in_progress + made.n);
    made.n = static_cast<int>(std::unique(made.in_progress, made.in_progress + made.n) - made.in_progress);
    if (made.n > 0) made.xmin = Min(made.xmin, made.in_progress[0]);
    return made;
}

char* print_snapshot(const EventSnapshot& snapshot) {
    StringInfoData out;
    initStringInfo(&out);
    appendStringInfo(&out, UINT64_FORMAT ":" UINT64_FORMAT ":", snapshot.xmin, snapshot.xmax);
    for (int i = 0; i < snapshot.n; ++i)
        appendStringInfo(&out, "%s" UINT64_FORMAT, i > 0 ? "," : "", snapshot.in_progress[i]);
    return out.data;
}

EventSnapshot parse_snapshot(const char* printed) {
    char* at;
    EventSnapshot read = {};
    read.xmin = strtoull(printed, &at, 10);
    read.xmax = strtoull(at + 1, &at, 10);
    read.in_progress = static_cast<uint64*>(palloc(sizeof(uint64) * (strlen(at) / 2 + 1)));
    while (*at != '\0' && at[1] != '\0') read.in_progress[read.n++] = strtoull(at + 1, &at, 10);
    return read;
}

PAWL_FUNCTION(pawl_snapshot) {
    return pg::call([&] {
        const EventSnapshot now = active_event_snapshot(outbox_base(Mark::none));
        return DirectFunctionCall1(pg_snapshot_in, CStringGetDatum(print_snapshot(now)));
    });
}

}  // namespace pawl
