// May ereport; owns nothing: what a command did to tables. Event triggers see it in a form that only C can read.
#include "pg/bridge.hpp"

extern "C" {
#include "nodes/parsenodes.h"
#include "tcop/deparse_utility.h"
}

namespace pawl {

namespace {

enum class TreeChange { none, join, leave };

TreeChange change_of(AlterTableType type) {
    switch (type) {
        case AT_AttachPartition:
        case AT_AddInherit:
            return TreeChange::join;
        case AT_DetachPartition:
        case AT_DetachPartitionFinalize:
        case AT_DropInherit:
            return TreeChange::leave;
        default:
            return TreeChange::none;
    }
}

// One ALTER TABLE may do both; then what joins matters more.
TreeChange change_of(List* subcommands) {
    TreeChange found = TreeChange::none;
    ListCell* cell;
    foreach (cell, subcommands) {
        Node* parsed = static_cast<CollectedATSubcmd*>(lfirst(cell))->parsetree;
        if (!IsA(parsed, AlterTableCmd)) continue;
        TreeChange change = change_of(reinterpret_cast<AlterTableCmd*>(parsed)->subtype);
        if (change == TreeChange::join) return change;
        if (change != TreeChange::none) found = change;
    }
    return found;
}

TreeChange change_of(const CollectedCommand& command) {
    if (command.type == SCT_AlterTable) return change_of(command.d.alterTable.subcmds);
    if (command.type != SCT_Simple || command.parsetree == nullptr) return TreeChange::none;
    // a foreign table's statement begins with that of a table
    if (!IsA(command.parsetree, CreateStmt) && !IsA(command.parsetree, CreateForeignTableStmt)) return TreeChange::none;
    return reinterpret_cast<CreateStmt*>(command.parsetree)->inhRelations == NIL ? TreeChange::none : TreeChange::join;
}

// Whether somebody has made a cast of his own by which values become this type without being asked to (AS ASSIGNMENT,
// AS IMPLICIT).
bool has_own_casts(Oid type) {
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_cast_casttarget, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(getBaseType(type)));
    Relation casts = table_open(CastRelationId, AccessShareLock);
    SysScanDesc scan = systable_beginscan(casts, InvalidOid, false, nullptr, 1, &key);
    bool found = false;
    while (HeapTuple tuple = systable_getnext(scan)) {
        auto* cast = reinterpret_cast<Form_pg_cast>(GETSTRUCT(tuple));
        found |= cast->oid >= FirstNormalObjectId && cast->castmethod == COERCION_METHOD_FUNCTION &&
                 cast->castcontext != COERCION_CODE_EXPLICIT;
    }
    systable_endscan(scan);
    table_close(casts, AccessShareLock);
    return found;
}

// The columns whose values the command may have computed anew: ALTER COLUMN ... TYPE, with USING or by a cast of
// somebody's own.
Datum rewritten_columns(const CollectedCommand& command) {
    List* names = NIL;
    ListCell* cell;
    foreach (cell, command.type == SCT_AlterTable ? command.d.alterTable.subcmds : NIL) {
        auto* parsed = reinterpret_cast<AlterTableCmd*>(static_cast<CollectedATSubcmd*>(lfirst(cell))->parsetree);
        if (!IsA(parsed, AlterTableCmd) || parsed->subtype != AT_AlterColumnType) continue;
        const Oid type =
            get_atttype(command.d.alterTable.objectId, get_attnum(command.d.alterTable.objectId, parsed->name));
        if (reinterpret_cast<ColumnDef*>(parsed->def)->raw_default != nullptr ||
            (OidIsValid(type) && has_own_casts(type)))
            names = lappend(names, parsed->name);
    }
    auto* elements = static_cast<Datum*>(palloc(sizeof(Datum) * Max(list_length(names), 1)));
    foreach (cell, names) elements[foreach_current_index(cell)] = CStringGetTextDatum(static_cast<char*>(lfirst(cell)));
    return PointerGetDatum(construct_array(elements, list_length(names), TEXTOID, -1, false, TYPALIGN_INT));
}

}  // namespace

// pawl._tree_change(command): 'join', 'leave', or null.
PAWL_FUNCTION(pawl_tree_change) {
    switch (change_of(*reinterpret_cast<CollectedCommand*>(PG_GETARG_POINTER(0)))) {
        case TreeChange::join:
            return pg::call([] { return CStringGetTextDatum("join"); });
        case TreeChange::leave:
            return pg::call([] { return CStringGetTextDatum("leave"); });
        case TreeChange::none:
            break;
    }
    fcinfo->isnull = true;
    return static_cast<Datum>(0);
}

// pawl._rewritten_columns(command): names, perhaps none.
PAWL_FUNCTION(pawl_rewritten_columns) {
    const auto* command = reinterpret_cast<CollectedCommand*>(PG_GETARG_POINTER(0));
    return pg::call([&] { return rewritten_columns(*command); });
}

}  // namespace pawl
