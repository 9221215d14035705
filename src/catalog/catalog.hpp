// May ereport; owns nothing. Direct scans of pawl's own catalog: they need no privilege of the caller, and they see
// what is committed now instead of the transaction's snapshot.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

Oid catalog_table(const char* name);  // pawl.<name>; InvalidOid if it does not exist

Oid own_trigger_function(const char* name);  // pawl.<name>(); InvalidOid if it does not exist

// Reports a damaged row of the catalog: XX001. `row` names the row, `problem` is a sentence.
[[noreturn]] void report_damage(const char* row, const char* problem);

// Reports a column of a table of the catalog that is of another type.
void require_type(const char* table, const FormData_pg_attribute& column, Oid type, Oid or_type = InvalidOid);

// One row during a scan. Columns are read by name; a column of another type is reported (XX001).
class CatalogRow {
public:
    CatalogRow(Relation relation, HeapTuple tuple) : relation_(relation), tuple_(tuple) {}

    bool has(const char* column) const;  // whether the table has the column; that of an earlier version may not
    Oid oid(const char* column) const;
    int integer(const char* column) const;
    bool boolean(const char* column) const;
    char* string(const char* column) const;            // null for NULL; text or name
    char* required(const char* column) const;          // the same; NULL is reported
    char** strings(const char* column, int* n) const;  // text[] or name[]
    bool* booleans(const char* column, int* n) const;  // boolean[]
    char* interval(const char* column) const;          // as text, null for NULL
    Interval* interval_value(const char* column) const;
    Jsonb* json(const char* column) const;  // null for NULL

private:
    Datum value(const char* column, bool* null, Oid type, Oid or_type = InvalidOid) const;

    Relation relation_;
    HeapTuple tuple_;
};

// Visited in no order.
using RowVisitor = void (*)(const CatalogRow& row, void* argument);

void scan_bindings_of(Oid relation, RowVisitor visit, void* argument);
void scan_bindings(RowVisitor visit, void* argument);
void scan_all(const char* table, RowVisitor visit, void* argument);  // every row of pawl.<table>
void scan_pruned_log(Oid log, RowVisitor visit, void* argument);
void scan_audit_of(Oid log, RowVisitor visit, void* argument);
void scan_versions(const char* machine, RowVisitor visit, void* argument);  // pawl.machine
void scan_machine(const char* table, const char* machine, int version, RowVisitor visit, void* argument);

}  // namespace pawl
