// May ereport; owns nothing. See outbox_era.hpp.
#include "events/outbox_era.hpp"

#include "catalog/catalog.hpp"

extern "C" {
#include "access/xlog.h"
}

namespace pawl {

namespace {

constexpr int era_bits = 56;  // of a number that are the server's own; places and transaction numbers stay below 2^63
constexpr int last_era = 127;

[[noreturn]] void report_missing(const char* table) {
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("table pawl.%s is missing", table),
                    errdetail("The installed SQL objects and the shared library are of different versions."), errhint("ALTER EXTENSION pawl UPDATE;")));
}

Relation open_catalog(const char* table, LOCKMODE lock) {
    const Oid relid = catalog_table(table);
    if (!OidIsValid(relid)) report_missing(table);
    return table_open(relid, lock);
}

void cluster_name(char (&name)[32]) { pg_snprintf(name, sizeof(name), UINT64_FORMAT, GetSystemIdentifier()); }

struct Eras {
    int own;    // 0: none
    int latest;
};

// A row that a dump brought in names a transaction that did not write it. A copy of the whole cluster that went its own way, and then
// got such a row of its original, is told by that too.
Eras read_eras() {
    char cluster[32];
    cluster_name(cluster);
    Relation relation = open_catalog("outbox_era", AccessShareLock);
    Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, snapshot, 0, nullptr);
    Eras eras = {0, 0};
    HeapTuple tuple;
    while (HeapTupleIsValid(tuple = systable_getnext(scan))) {
        bool null;
        const int era = DatumGetInt32(heap_getattr(tuple, 1, RelationGetDescr(relation), &null));
        const bool here = strcmp(TextDatumGetCString(heap_getattr(tuple, 2, RelationGetDescr(relation), &null)), cluster) == 0;
        const TransactionId written_by = DatumGetTransactionId(heap_getattr(tuple, 3, RelationGetDescr(relation), &null));
        if (here && HeapTupleHeaderGetRawXmin(tuple->t_data) == written_by)
            eras.own = Max(eras.own, era);
        eras.latest = Max(eras.latest, era);
    }
    systable_endscan(scan);
    UnregisterSnapshot(snapshot);
    table_close(relation, AccessShareLock);
    return eras;
}

void leave_mark(int era) {
    char cluster[32];
    cluster_name(cluster);
    Relation relation = open_catalog("outbox_era", RowExclusiveLock);
    Datum values[3] = {Int32GetDatum(era), CStringGetTextDatum(cluster), TransactionIdGetDatum(GetCurrentTransactionId())};
    bool nulls[3] = {};
    simple_heap_insert(relation, heap_form_tuple(RelationGetDescr(relation), values, nulls));
    table_close(relation, NoLock);
}

}  // namespace

uint64 outbox_base(Mark mark) {
    const Eras eras = read_eras();
    const bool known = eras.own > 0 && eras.own == eras.latest;
    const int era = known ? eras.own : eras.latest + 1;
    if (era > last_era)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("the outbox was restored into another cluster %d times", last_era),
                        errhint("Read and drop all consumers, then as a superuser: TRUNCATE pawl.outbox_era;")));
    // Two that begin an era at the same time begin the same one.
    if (!known && mark == Mark::leave) leave_mark(era);
    return static_cast<uint64>(era - 1) << era_bits;
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
    const int slot = HeapTupleIsValid(tuple) ? DatumGetInt32(heap_getattr(tuple, 1, RelationGetDescr(relation), &null)) : 1;
    systable_endscan(scan);
    UnregisterSnapshot(snapshot);
    table_close(relation, AccessShareLock);
    return slot;
}

}  // namespace pawl
