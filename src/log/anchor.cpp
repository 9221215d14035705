// May ereport; owns nothing. See anchor.hpp.
#include "log/anchor.hpp"

#include "catalog/catalog.hpp"
#include "log/columns.hpp"

namespace pawl {

namespace {

void visit_pruned(const CatalogRow& row, void* argument) {
    *static_cast<Oid*>(argument) = row.oid("anchors");
}

Datum value_of(Relation anchors, TupleTableSlot* slot, const char* column, Oid type, bool* null) {
    return slot_getattr(slot, typed_column(anchors, column, type), null);
}

NewestEntry read_anchor(Relation anchors, TupleTableSlot* slot) {
    NewestEntry newest = {};
    bool null;
    if (get_attnum(RelationGetRelid(anchors), "whole") == InvalidAttrNumber)
        return newest;  // made by an earlier version
    Datum value = value_of(anchors, slot, "whole", BOOLOID, &null);
    if (null || !DatumGetBool(value)) return newest;
    newest.found = true;
    newest.sort_key = DatumGetInt32(value_of(anchors, slot, "sort_key", INT4OID, &null));
    newest.at = DatumGetTimestampTz(value_of(anchors, slot, "created_at", TIMESTAMPTZOID, &null));
    value = value_of(anchors, slot, "to_state", TEXTOID, &null);
    if (!null) newest.to = DatumGetTextPCopy(value);
    value = value_of(anchors, slot, "hash", BYTEAOID, &null);
    if (!null) newest.hash = DatumGetByteaPCopy(value);
    return newest;
}

}  // namespace

void prepare_key_scan(Relation index, int nkeys, ScanKeyData* keys) {
    for (int i = 0; i < nkeys; ++i) {
        const Oid type = index->rd_opcintype[i];
        const Oid equality = get_opfamily_member(index->rd_opfamily[i], type, type, BTEqualStrategyNumber);
        // No type of its own: the operator class compares varchar as text, a domain as its base, any enum as anyenum.
        ScanKeyEntryInitialize(&keys[i], 0, i + 1, BTEqualStrategyNumber, InvalidOid, index->rd_indcollation[i],
                               get_opcode(equality), static_cast<Datum>(0));
    }
}

NewestEntry find_anchor(Oid log, const StateChange& change) {
    NewestEntry newest = {};
    Oid table = InvalidOid;
    scan_pruned_log(log, visit_pruned, &table);
    Relation anchors = OidIsValid(table) ? try_relation_open(table, AccessShareLock) : nullptr;
    if (anchors == nullptr) return newest;
    check_log_table(anchors);
    const Oid primary_key = pg::primary_key_index(anchors);
    if (OidIsValid(primary_key)) {
        Relation index = index_open(primary_key, AccessShareLock);
        const int nkeys = change.binding->nkeys;
        check_subject_key(anchors, index, change.binding->keys, nkeys, 0);
        ScanKeyData keys[INDEX_MAX_KEYS];
        prepare_key_scan(index, nkeys, keys);
        for (int i = 0; i < nkeys; ++i) keys[i].sk_argument = change.key[i];
        IndexScanDesc scan = pg::begin_index_scan(anchors, index, SnapshotSelf, nkeys);
        index_rescan(scan, keys, nkeys, nullptr, 0);
        TupleTableSlot* slot = table_slot_create(anchors, nullptr);
        if (index_getnext_slot(scan, ForwardScanDirection, slot)) newest = read_anchor(anchors, slot);
        ExecDropSingleTupleTableSlot(slot);
        index_endscan(scan);
        index_close(index, NoLock);
    }
    table_close(anchors, NoLock);
    return newest;
}

}  // namespace pawl
