// May throw and may ereport: pawl_dag._insert_edges, which writes the edges of tasks that start without a statement.
// The functions in the anonymous namespace ereport and own nothing.
#include "log/log_table.hpp"
#include "packs/dag/orchestrating.hpp"
#include "pg/arguments.hpp"
#include "pg/row_trigger.hpp"

extern "C" {
#include "commands/trigger.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
}

namespace pawl {

namespace {

constexpr int batch_size = 256;
constexpr int columns = 3;  // task, parent and child

// The tables that a start writes.
struct Tables {
    Relation tasks;
    Relation steps;
    Relation edges;
};

Relation open_in(Oid schema, const char* name) {
    return table_open(get_relname_relid(name, schema), RowExclusiveLock);
}

bool is_key_check(const Trigger& trigger, const Tables& tables) {
    return trigger.tgfoid == F_RI_FKEY_CHECK_INS && (trigger.tgconstrrelid == RelationGetRelid(tables.tasks) ||
                                                     trigger.tgconstrrelid == RelationGetRelid(tables.steps));
}

// Whether nothing but the extension's own triggers fires when a row is inserted.
bool has_own_triggers(Relation table, const Tables& tables) {
    const Oid schema = RelationGetNamespace(tables.edges);
    const Oid kernel = get_namespace_oid("pawl", false);
    TriggerDesc* triggers = table->trigdesc;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i) {
        const Trigger& trigger = triggers->triggers[i];
        if (!TRIGGER_FOR_INSERT(trigger.tgtype) || is_key_check(trigger, tables)) continue;
        const Oid of = get_func_namespace(trigger.tgfoid);
        if (of != schema && of != kernel) return false;
    }
    return true;
}

bool is_plain(Relation table, const Tables& tables) {
    return table->rd_rel->relkind == RELKIND_RELATION && !table->rd_rel->relispartition && table->rd_rules == nullptr &&
           !table->rd_rel->relrowsecurity && has_own_triggers(table, tables);
}

// The columns in the order of the arguments, and no others.
bool find_columns(Relation edges, AttrNumber* found) {
    static constexpr const char* names[columns] = {"task_uuid", "parent_uuid", "child_uuid"};
    TupleDesc descriptor = RelationGetDescr(edges);
    if (descriptor->natts != columns) return false;
    for (int i = 0; i < columns; ++i) {
        const int number = SPI_fnumber(descriptor, names[i]);
        if (number <= 0) return false;
        const FormData_pg_attribute* column = TupleDescAttr(descriptor, number - 1);
        if (column->atttypid != UUIDOID || column->attgenerated != '\0' || column->attidentity != '\0') return false;
        found[i] = static_cast<AttrNumber>(number);
    }
    return true;
}

struct Edges {
    Datum* of[columns];
    int n;
};

// No nulls; 22004 if there are any, 2202E if the arrays differ in length.
Edges edges_of(FunctionCallInfo fcinfo) {
    Edges edges = {};
    for (int i = 0; i < columns; ++i) {
        if (PG_ARGISNULL(i)) continue;
        int n;
        deconstruct_array(PG_GETARG_ARRAYTYPE_P(i), UUIDOID, UUID_LEN, false, TYPALIGN_CHAR, &edges.of[i], nullptr, &n);
        if (i > 0 && n != edges.n) ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR), errmsg("edges are uneven")));
        edges.n = n;
    }
    return edges;
}

void write(Relation table, const AttrNumber* numbers, const Edges& edges) {
    LogTable target = open_log_table(table);
    TupleDesc descriptor = CreateTupleDescCopyConstr(RelationGetDescr(table));
    TupleTableSlot* slots[batch_size];
    const int nslots = Min(batch_size, edges.n);
    for (int i = 0; i < nslots; ++i) slots[i] = MakeSingleTupleTableSlot(descriptor, &TTSOpsHeapTuple);
    for (int first = 0; first < edges.n; first += batch_size) {
        const int n = Min(batch_size, edges.n - first);
        for (int i = 0; i < n; ++i) {
            Datum values[columns];
            bool nulls[columns] = {};
            for (int column = 0; column < columns; ++column) values[numbers[column] - 1] = edges.of[column][first + i];
            ExecStoreHeapTuple(heap_form_tuple(descriptor, values, nulls), slots[i], true);
            slots[i]->tts_tableOid = RelationGetRelid(table);
            check_batched_row(target, slots[i], nulls);
        }
        insert_log_rows(&target, slots, n);
        for (int i = 0; i < n; ++i) ExecClearTuple(slots[i]);
    }
    for (int i = 0; i < nslots; ++i) ExecDropSingleTupleTableSlot(slots[i]);
    close_log_table(&target);
    CommandCounterIncrement();
}

bool insert(FunctionCallInfo fcinfo) {
    const Oid schema = get_namespace_oid("pawl_dag", false);
    const Tables tables = {open_in(schema, "tasks"), open_in(schema, "steps"), open_in(schema, "edges")};
    AttrNumber numbers[columns];
    const bool fits = is_plain(tables.tasks, tables) && is_plain(tables.steps, tables) &&
                      is_plain(tables.edges, tables) && find_columns(tables.edges, numbers) &&
                      pg_class_aclcheck(RelationGetRelid(tables.edges), GetUserId(), ACL_INSERT) == ACLCHECK_OK;
    if (fits) {
        const Edges edges = edges_of(fcinfo);
        if (edges.n > 0) write(tables.edges, numbers, edges);
    }
    for (Relation table : {tables.tasks, tables.steps, tables.edges}) table_close(table, NoLock);
    return fits;
}

}  // namespace

// pawl_dag._insert_edges(tasks, parents, children). Other statements than those of a start are no reason to trust what
// they pass: false.
PAWL_FUNCTION(pawl_dag_insert_edges) {
    if (!dag::is_at_work()) return BoolGetDatum(false);
    return BoolGetDatum(pg::call([&] { return insert(fcinfo); }));
}

}  // namespace pawl
