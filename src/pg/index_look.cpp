// May ereport; owns nothing. See index_look.hpp.
#include "pg/index_look.hpp"

extern "C" {
#include "catalog/pg_am.h"
#include "storage/bufmgr.h"
}

namespace pawl::pg {

void prepare_key_scan(Relation index, int nkeys, ScanKeyData* keys) {
    for (int i = 0; i < nkeys; ++i) {
        const Oid type = index->rd_opcintype[i];
        const Oid equality = get_opfamily_member(index->rd_opfamily[i], type, type, BTEqualStrategyNumber);
        // No type of its own: the operator class compares varchar as text, a domain as its base, any enum as anyenum.
        ScanKeyEntryInitialize(&keys[i], 0, i + 1, BTEqualStrategyNumber, InvalidOid, index->rd_indcollation[i],
                               get_opcode(equality), static_cast<Datum>(0));
    }
}

namespace {

bool is_usable(Relation index, Oid table) {
    const FormData_pg_index* form = index->rd_index;
    return index->rd_rel->relam == BTREE_AM_OID && form->indrelid == table && form->indisvalid && !form->indcheckxmin;
}

Seen look(Relation table, Relation index, std::optional<Datum> first, int most, TupleTableSlot* row,
          ScanDirection direction) {
    ScanKeyData key;
    const int nkeys = first.has_value() ? 1 : 0;
    prepare_key_scan(index, nkeys, &key);
    if (nkeys > 0) key.sk_argument = *first;
    Snapshot snapshot = RegisterSnapshot(GetTransactionSnapshot());
    IndexScanDesc scan = begin_index_scan(table, index, snapshot, nkeys);
    index_rescan(scan, &key, nkeys, nullptr, 0);
    Seen seen = Seen::none;
    while (seen == Seen::none && index_getnext_tid(scan, direction) != nullptr) {
        if (index_fetch_heap(scan, row))
            seen = Seen::some;
        else if (--most <= 0)
            seen = Seen::unknown;
    }
    index_endscan(scan);
    UnregisterSnapshot(snapshot);
    return seen;
}

Seen look_by_name(Relation table, const char* index_name, std::optional<Datum> first, int most, TupleTableSlot* row,
                  ScanDirection direction) {
    const Oid id = get_relname_relid(index_name, RelationGetNamespace(table));
    if (!OidIsValid(id) || table->rd_rel->relkind != RELKIND_RELATION) return Seen::unknown;
    Relation index = index_open(id, AccessShareLock);
    const bool usable = is_usable(index, RelationGetRelid(table));
    const Seen seen = usable ? look(table, index, first, most, row, direction) : Seen::unknown;
    index_close(index, AccessShareLock);
    return seen;
}

Seen look_by_name(Relation table, const char* index_name, std::optional<Datum> first, int most,
                  ScanDirection direction) {
    TupleTableSlot* row = table_slot_create(table, nullptr);
    const Seen seen = look_by_name(table, index_name, first, most, row, direction);
    ExecDropSingleTupleTableSlot(row);
    return seen;
}

}  // namespace

Seen look_for_first(Relation table, const char* index_name, std::optional<Datum> first, int most, TupleTableSlot* row) {
    return look_by_name(table, index_name, first, most, row, ForwardScanDirection);
}

Seen look_into(Relation table, const char* index_name, std::optional<Datum> first, int most) {
    return look_by_name(table, index_name, first, most, ForwardScanDirection);
}

Seen look_from_last(Relation table, const char* index_name, Datum first, int most) {
    return look_by_name(table, index_name, first, most, BackwardScanDirection);
}

bool is_empty(Oid table) {
    Relation relation = table_open(table, AccessShareLock);
    const bool empty = relation->rd_rel->relkind == RELKIND_RELATION && RelationGetNumberOfBlocks(relation) == 0;
    table_close(relation, AccessShareLock);
    return empty;
}

}  // namespace pawl::pg
