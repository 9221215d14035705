// May ereport; owns nothing. See column_changes.hpp.
#include "guard/column_changes.hpp"

namespace pawl {

namespace {

// A table may have any number of bindings, each with its own columns.
void make_room(ColumnChanges* changes) {
    if (changes->n < changes->room) return;
    const int room = changes->room + 16;
    auto* columns = static_cast<int*>(palloc(sizeof(int) * room));
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * room));
    auto* nulls = static_cast<bool*>(palloc(sizeof(bool) * room));
    if (changes->n > 0) {
        memcpy(columns, changes->columns, sizeof(int) * changes->n);
        memcpy(values, changes->values, sizeof(Datum) * changes->n);
        memcpy(nulls, changes->nulls, sizeof(bool) * changes->n);
    }
    *changes = {changes->n, room, columns, values, nulls};
}

}  // namespace

void put_column(ColumnChanges* changes, AttrNumber column, Datum value, bool null) {
    make_room(changes);
    changes->columns[changes->n] = column;
    changes->values[changes->n] = value;
    changes->nulls[changes->n] = null;
    ++changes->n;
}

void drop_unchanged(TupleTableSlot* row, ColumnChanges* changes) {
    int kept = 0;
    for (int i = 0; i < changes->n; ++i) {
        const int column = changes->columns[i];
        bool counts = true;
        for (int later = i + 1; later < changes->n; ++later) counts &= changes->columns[later] != column;
        const ColumnValue value = {changes->values[i], changes->nulls[i]};
        if (!counts || same_value(row, column, stored_value(row, column), value)) continue;
        changes->columns[kept] = column;
        changes->values[kept] = value.datum;
        changes->nulls[kept++] = value.null;
    }
    changes->n = kept;
}

ColumnValue stored_value(TupleTableSlot* row, AttrNumber column) {
    ColumnValue value;
    value.datum = slot_getattr(row, column, &value.null);
    return value;
}

bool same_value(TupleTableSlot* row, AttrNumber column, ColumnValue one, ColumnValue other) {
    if (one.null || other.null) return one.null == other.null;
    const FormData_pg_attribute* attribute = TupleDescAttr(row->tts_tupleDescriptor, column - 1);
    return datum_image_eq(one.datum, other.datum, attribute->attbyval, attribute->attlen);
}

}  // namespace pawl
