// May ereport; owns nothing. Columns of a row with the values that replace those of the statement.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

struct ColumnChanges {
    int n;
    int room;
    int* columns;
    Datum* values;
    bool* nulls;
};

// Sets any column; of several values for one column the last counts.
void put_column(ColumnChanges* changes, AttrNumber column, Datum value, bool null = false);

// Leaves out those that give the row the values that it has, so that a row without any need not be formed again.
void drop_unchanged(TupleTableSlot* row, ColumnChanges* changes);

struct ColumnValue {
    Datum datum;
    bool null;
};

ColumnValue stored_value(TupleTableSlot* row, AttrNumber column);

// Whether two values of a column of the row have the same image.
bool same_value(TupleTableSlot* row, AttrNumber column, ColumnValue one, ColumnValue other);

}  // namespace pawl
