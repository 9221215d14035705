// Seam. May ereport; owns nothing. Looks at an index without a statement, where a statement would mostly find nothing.
#pragma once

#include <optional>

#include "pg/postgres.hpp"

extern "C" {
#include "access/genam.h"
#include "utils/snapmgr.h"
}

namespace pawl::pg {

// Keys that compare the first columns of an index for equality. Their arguments are missing.
void prepare_key_scan(Relation index, int nkeys, ScanKeyData* keys);

enum class Seen { none, some, unknown };

constexpr int any_number = PG_INT32_MAX;

// Whether a B-tree index of the table has an entry of a row that is visible to a new snapshot: any, or one with a value
// in its first column. Unknown: the table is partitioned or has no such index that is valid, or the first `most`
// entries are of rows that are not visible.
Seen look_into(Relation table, const char* index_name, std::optional<Datum> first = {}, int most = any_number);

// The same; if there is one, the first of these rows is then in `row`, a slot for rows of the table.
Seen look_for_first(Relation table, const char* index_name, std::optional<Datum> first, int most, TupleTableSlot* row);

// The same, from the last entry of these to the first.
Seen look_from_last(Relation table, const char* index_name, Datum first, int most);

// Visits the rows that the snapshot sees and for which all comparisons hold, until `visit` returns false. The index of
// this name has the compared columns first, in this order; without it, all rows are read.
template <typename Visit>
void visit_matches(Relation table, const char* index_name, ScanKeyData* compared, int n, Snapshot snapshot,
                   Visit visit) {
    const Oid index = get_relname_relid(index_name, RelationGetNamespace(table));
    Snapshot registered = RegisterSnapshot(snapshot);
    SysScanDesc scan = systable_beginscan(table, index, OidIsValid(index), registered, n, compared);
    for (HeapTuple row; HeapTupleIsValid(row = systable_getnext(scan));)
        if (!visit(row)) break;
    systable_endscan(scan);
    UnregisterSnapshot(registered);
}

// Whether the table has been empty since it was last vacuumed.
bool is_empty(Oid table);

}  // namespace pawl::pg
