// May ereport; owns nothing. What a DDL command did to tables. Event triggers receive it in a form that only C can
// read.
#include "pg/bridge.hpp"

#include "pg/spi.hpp"

extern "C" {
#include "commands/event_trigger.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_type.h"
#include "tcop/deparse_utility.h"
}

namespace pawl {

namespace {

enum class TreeChange { none, join, leave, type };

TreeChange change_of(AlterTableType type) {
    switch (type) {
        case AT_AttachPartition:
        case AT_AddInherit:
            return TreeChange::join;
        case AT_DetachPartition:
        case AT_DetachPartitionFinalize:
        case AT_DropInherit:
            return TreeChange::leave;
        case AT_AlterColumnType:
            return TreeChange::type;
        default:
            return TreeChange::none;
    }
}

// One ALTER TABLE may do several; the table that joins matters most, the column that changes its type least.
TreeChange change_of(List* subcommands) {
    TreeChange found = TreeChange::none;
    ListCell* cell;
    foreach (cell, subcommands) {
        Node* parsed = static_cast<CollectedATSubcmd*>(lfirst(cell))->parsetree;
        if (!IsA(parsed, AlterTableCmd)) continue;
        TreeChange change = change_of(reinterpret_cast<AlterTableCmd*>(parsed)->subtype);
        if (change == TreeChange::join) return change;
        if (change != TreeChange::none && found != TreeChange::leave) found = change;
    }
    return found;
}

TreeChange change_of(const CollectedCommand& command) {
    if (command.type == SCT_AlterTable) return change_of(command.d.alterTable.subcmds);
    if (command.type != SCT_Simple || command.parsetree == nullptr) return TreeChange::none;
    // A foreign table's statement begins with that of a table.
    if (!IsA(command.parsetree, CreateStmt) && !IsA(command.parsetree, CreateForeignTableStmt)) return TreeChange::none;
    return reinterpret_cast<CreateStmt*>(command.parsetree)->inhRelations == NIL ? TreeChange::none : TreeChange::join;
}

// Whether a user has created a cast by which values are converted to this type without being asked for (AS ASSIGNMENT,
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

// Types whose values are their texts: text, varchar, enums, and domains over them.
bool is_textual(Oid type) {
    const Oid base = getBaseType(type);
    return base == TEXTOID || base == VARCHAROID || get_typtype(base) == TYPTYPE_ENUM;
}

bool is_integer(Oid type) {
    const Oid base = getBaseType(type);
    return base == INT2OID || base == INT4OID || base == INT8OID;
}

// The argument of a function that PostgreSQL puts into a cast and that keeps the text of each value; else null. `room`:
// the type modifier of a varchar to which a text may be shortened, -1: not at all.
Node* kept_argument(const FuncExpr* call, int32 room) {
    auto* argument = call->args == NIL ? nullptr : static_cast<Node*>(linitial(call->args));
    switch (call->funcid) {
        case F_INT4_INT2:
        case F_INT8_INT2:
        case F_INT8_INT4:
            return argument;
        case F_VARCHAR_VARCHAR_INT4_BOOL: {
            auto* length = static_cast<Node*>(lsecond(call->args));
            const int32 before = exprTypmod(argument);
            if (!IsA(length, Const)) return nullptr;
            const int32 after = DatumGetInt32(reinterpret_cast<Const*>(length)->constvalue);
            return (before >= 0 && before <= after) || (room >= 0 && room <= after) ? argument : nullptr;
        }
        default:
            return nullptr;
    }
}

// Whether an expression is a column of the table whose values keep their texts: col, col::x, col::text::x, where no
// function of a user is called.
bool keeps_text(Node* expression, AttrNumber attribute, int32 room) {
    while (expression != nullptr) {
        switch (nodeTag(expression)) {
            case T_Var: {
                auto* column = reinterpret_cast<Var*>(expression);
                return column->varattno == attribute && column->varlevelsup == 0;
            }
            case T_RelabelType: {
                auto* cast = reinterpret_cast<RelabelType*>(expression);
                expression = is_textual(cast->resulttype) ? reinterpret_cast<Node*>(cast->arg) : nullptr;
                break;
            }
            case T_CoerceToDomain:
                expression = reinterpret_cast<Node*>(reinterpret_cast<CoerceToDomain*>(expression)->arg);
                break;
            case T_CoerceViaIO: {
                auto* cast = reinterpret_cast<CoerceViaIO*>(expression);
                auto* argument = reinterpret_cast<Node*>(cast->arg);
                const Oid before = exprType(argument);
                expression =
                    is_textual(cast->resulttype) && (is_textual(before) || is_integer(before) || before == UUIDOID)
                        ? argument
                        : nullptr;
                break;
            }
            case T_FuncExpr:
                expression = kept_argument(reinterpret_cast<FuncExpr*>(expression), room);
                break;
            default:
                return false;
        }
    }
    return false;
}

// Whether ALTER COLUMN ... TYPE may have given a column other texts: by USING, or by a user's cast. `cut`: apart from
// texts for which the column is too short.
bool rewrites(Oid relation, const AlterTableCmd* command, bool cut) {
    const auto* column = reinterpret_cast<const ColumnDef*>(command->def);
    const AttrNumber attribute = get_attnum(relation, command->name);
    Oid type, collation;
    int32 length = -1;
    if (attribute == InvalidAttrNumber) return column->raw_default != nullptr;
    get_atttypetypmodcoll(relation, attribute, &type, &length, &collation);
    if (has_own_casts(type)) return true;
    if (column->raw_default == nullptr) return false;
    const bool is_varchar = getBaseTypeAndTypmod(type, &length) == VARCHAROID;
    return !keeps_text(column->cooked_default, attribute, cut && is_varchar ? length : -1);
}

// The columns whose values the command may have computed anew.
Datum rewritten_columns(const CollectedCommand& command, bool cut) {
    List* names = NIL;
    ListCell* cell;
    foreach (cell, command.type == SCT_AlterTable ? command.d.alterTable.subcmds : NIL) {
        auto* parsed = reinterpret_cast<AlterTableCmd*>(static_cast<CollectedATSubcmd*>(lfirst(cell))->parsetree);
        if (!IsA(parsed, AlterTableCmd) || parsed->subtype != AT_AlterColumnType) continue;
        if (rewrites(command.d.alterTable.objectId, parsed, cut)) names = lappend(names, parsed->name);
    }
    auto* elements = static_cast<Datum*>(palloc(sizeof(Datum) * Max(list_length(names), 1)));
    foreach (cell, names) elements[foreach_current_index(cell)] = CStringGetTextDatum(static_cast<char*>(lfirst(cell)));
    return PointerGetDatum(construct_array(elements, list_length(names), TEXTOID, -1, false, TYPALIGN_INT));
}

bool is_enum(Oid type) {
    return OidIsValid(type) && get_typtype(getBaseType(type)) == TYPTYPE_ENUM;
}

// Whether a column becomes an enum, or stops being one: then the predicate of an index on it has no operator any more.
bool changes_enum(Oid relation, const AlterTableCmd* command) {
    if (command->subtype != AT_AlterColumnType || !IsA(command->def, ColumnDef)) return false;
    const Oid before = get_atttype(relation, get_attnum(relation, command->name));
    const TypeName* name = reinterpret_cast<ColumnDef*>(command->def)->typeName;
    Type found = name == nullptr ? nullptr : LookupTypeName(nullptr, name, nullptr, true);
    if (found == nullptr) return false;
    const Oid after = typeTypeId(found);
    ReleaseSysCache(found);
    return OidIsValid(before) && getBaseType(before) != getBaseType(after) && (is_enum(before) || is_enum(after));
}

void drop_claim_index(Oid relation, const char* column) {
    SPI_connect();
    Oid types[] = {OIDOID, TEXTOID};
    Datum values[] = {ObjectIdGetDatum(relation), CStringGetTextDatum(column)};
    pg::run_for_row("SELECT pawl._before_enum($1, $2::pg_catalog.name)", 2, types, values);
    SPI_finish();
}

void before_alter_table(const AlterTableStmt* statement) {
    const Oid relation = RangeVarGetRelid(statement->relation, NoLock, true);
    if (!OidIsValid(relation)) return;
    ListCell* cell;
    foreach (cell, statement->cmds) {
        const auto* command = static_cast<const AlterTableCmd*>(lfirst(cell));
        if (IsA(command, AlterTableCmd) && changes_enum(relation, command)) drop_claim_index(relation, command->name);
    }
}

}  // namespace

// pawl._prepare(): event trigger before ALTER TABLE.
PAWL_FUNCTION(pawl_prepare) {
    if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED, "pawl._prepare() is an event trigger function");
    Node* parsed = reinterpret_cast<EventTriggerData*>(fcinfo->context)->parsetree;
    pg::call([&] {
        if (parsed != nullptr && IsA(parsed, AlterTableStmt))
            before_alter_table(reinterpret_cast<AlterTableStmt*>(parsed));
    });
    return static_cast<Datum>(0);
}

// pawl._tree_change(command): 'join', 'leave', 'type', or null.
PAWL_FUNCTION(pawl_tree_change) {
    switch (change_of(*reinterpret_cast<CollectedCommand*>(PG_GETARG_POINTER(0)))) {
        case TreeChange::join:
            return pg::call([] { return CStringGetTextDatum("join"); });
        case TreeChange::leave:
            return pg::call([] { return CStringGetTextDatum("leave"); });
        case TreeChange::type:
            return pg::call([] { return CStringGetTextDatum("type"); });
        case TreeChange::none:
            break;
    }
    fcinfo->isnull = true;
    return static_cast<Datum>(0);
}

// pawl._rewritten_columns(command, cut): names, perhaps none.
PAWL_FUNCTION(pawl_rewritten_columns) {
    const auto* command = reinterpret_cast<CollectedCommand*>(PG_GETARG_POINTER(0));
    return pg::call([&] { return rewritten_columns(*command, PG_GETARG_BOOL(1)); });
}

}  // namespace pawl
