// May ereport; owns nothing. See outbox_epoch.hpp.
#include "events/outbox_epoch.hpp"

#include "catalog/catalog.hpp"

extern "C" {
#include "access/xlog.h"
}

namespace pawl {

namespace {

constexpr int epoch_bits = 56;  // of a number that are the server's own; places and transaction numbers stay below 2^63
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

// A row that a dump brought in names a transaction that did not write it. A copy of the whole cluster that went its own
// way, and then got such a row of its original, is told by that too.
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

}  // namespace

uint64 outbox_base(Mark mark) {
    const Epochs epochs = read_epochs();
    const bool known = epochs.own > 0 && epochs.own == epochs.latest;
    const int epoch = known ? epochs.own : epochs.latest + 1;
    if (epoch > last_epoch)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("the outbox was restored into another cluster %d times", last_epoch),
                        errhint("Read and drop all consumers, then as a superuser: TRUNCATE pawl.outbox_epoch;")));
    // Two that begin an epoch at the same time begin the same one.
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

}  // namespace pawl
