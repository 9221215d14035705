// May ereport; owns nothing. The tables into which a start writes steps and edges without statements.
#pragma once

#include "guard/insert_rows.hpp"
#include "log/log_table.hpp"

namespace pawl::dag {

// Open for a start, with locks that end with the transaction.
struct StartTables {
    Relation tasks;
    Relation steps;
    Relation edges;
};

StartTables open_start_tables();
void close_start_tables(const StartTables& tables);

// Whether nothing but triggers of the extensions would fire if rows were inserted by statements, all those of the
// kernel would, and no rules or policies apply.
bool are_plain(const StartTables& tables);

// Rows on their way into a table, which are inserted in batches. Usage: begin_rows; add_row, any number of times;
// end_rows.
struct NewRows {
    static constexpr int batch_size = 256;
    Member* member;  // null: the table is not enforced
    LogTable table;
    TupleDesc descriptor;
    TupleTableSlot* slots[batch_size];
    int nslots;
    int nused;
    MemoryContext batch;  // of the rows; reset when they are inserted
};

NewRows* begin_rows(Relation table, Member* member);
// One value and null a column; the values are copied.
void add_row(NewRows* rows, Datum* values, bool* nulls);
void end_rows(NewRows* rows);

}  // namespace pawl::dag
