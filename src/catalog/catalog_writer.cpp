// May throw and may ereport: the only functions that write pawl.machine, pawl.binding and pawl.audit_binding for roles
// that are no superusers. The SQL functions that call them keep the caller's rights, because they run the caller's code
// (guards, casts, CHECKs of domains). Here the user is switched for a single statement of pawl's own, after the
// caller's right was checked: each function is safe to be called on its own, with any arguments.
#include "catalog/catalog_writer.hpp"

#include "catalog/catalog.hpp"
#include "catalog/member_cache.hpp"
#include "pg/arguments.hpp"
#include "pg/sqlstate.hpp"
#include "session/rights.hpp"

namespace pawl {

namespace {

struct Statement {
    const char* query;
    int n;
    Oid* types;
    Datum* values;
    const char* nulls;
    uint64 rows;
};

void execute(void* argument) {
    auto* statement = static_cast<Statement*>(argument);
    SPI_connect();
    const int result = SPI_execute_with_args(statement->query, statement->n, statement->types, statement->values,
                                             statement->nulls, false, 0);
    if (result < 0)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("could not write the catalog: %s", SPI_result_code_string(result))));
    statement->rows = SPI_processed;
    SPI_finish();
}

const char* shown(Oid relation) {
    return DatumGetCString(DirectFunctionCall1(regclassout, ObjectIdGetDatum(relation)));
}

// A row of a table of the catalog, given as an argument.
struct Row {
    HeapTupleData tuple;
    TupleDesc descriptor;
};

Row row_argument(FunctionCallInfo fcinfo, int n) {
    HeapTupleHeader record = PG_GETARG_HEAPTUPLEHEADER(n);
    Row row = {};
    row.tuple.t_len = HeapTupleHeaderGetDatumLength(record);
    ItemPointerSetInvalid(&row.tuple.t_self);
    row.tuple.t_data = record;
    row.descriptor = lookup_rowtype_tupdesc_copy(HeapTupleHeaderGetTypeId(record), HeapTupleHeaderGetTypMod(record));
    return row;
}

int column_of(const Row& row, const char* name, Oid type) {
    for (int i = 0; i < row.descriptor->natts; ++i) {
        const FormData_pg_attribute* column = TupleDescAttr(row.descriptor, i);
        if (column->attisdropped || strcmp(NameStr(column->attname), name) != 0) continue;
        require_type(get_rel_name(get_typ_typrelid(row.descriptor->tdtypeid)), *column, type);
        return i + 1;
    }
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN), errmsg("column \"%s\" is missing", name),
                    errhint("ALTER EXTENSION pawl UPDATE;")));
}

Oid oid_of(Row& row, const char* name) {
    bool null;
    Datum value = heap_getattr(&row.tuple, column_of(row, name, REGCLASSOID), row.descriptor, &null);
    return null ? InvalidOid : DatumGetObjectId(value);
}

const char* name_of(Row& row, const char* name) {
    bool null;
    Datum value = heap_getattr(&row.tuple, column_of(row, name, NAMEOID), row.descriptor, &null);
    if (null) ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", name)));
    return pstrdup(NameStr(*DatumGetName(value)));
}

void set(Row& row, const char* name, Oid type, Datum value, bool null) {
    int column = column_of(row, name, type);
    row.tuple = *heap_modify_tuple_by_cols(&row.tuple, row.descriptor, 1, &column, &value, &null);
}

// Sets the role and the time, which the caller must not choose.
void sign(Row& row, const char* by, const char* at) {
    set(row, by, TEXTOID, CStringGetTextDatum(GetUserNameFromId(GetUserId(), false)), false);
    set(row, at, TIMESTAMPTZOID, TimestampTzGetDatum(GetCurrentTimestamp()), false);
}

uint64 run_with_row(const char* query, Row& row) {
    Oid type = row.descriptor->tdtypeid;
    Datum value = heap_copy_tuple_as_datum(&row.tuple, row.descriptor);
    return run_as_catalog_owner(query, 1, &type, &value, nullptr);
}

struct Newest {
    int version;
    char* owner;
};

void visit_owner(const CatalogRow& row, void* argument) {
    auto* newest = static_cast<Newest*>(argument);
    const int version = row.integer("version");
    if (version <= newest->version) return;
    newest->version = version;
    newest->owner = row.string("owner");
}

// Locks the machine until the end of the transaction.
void lock_own_machine(const char* machine) {
    LockRelationOid(catalog_table("machine"), ShareRowExclusiveLock);
    Newest newest = {0, nullptr};
    scan_versions(machine, visit_owner, &newest);
    if (newest.version == 0)
        ereport(ERROR, (errcode(sqlstate::unknown_object), errmsg("unknown machine \"%s\"", machine),
                        errhint("SELECT machine, version FROM pawl.machine;")));
    require_machine_owner(machine, newest.owner);
}

}  // namespace

void require_owner(Oid relation) {
    if (!OidIsValid(relation) || get_rel_relkind(relation) == '\0')
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", relation)));
    if (!pg::owns_relation(relation, GetUserId()))
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("must be owner of table %s", shown(relation)),
                        errhint("Call it as role \"%s\", or as a member of it.",
                                GetUserNameFromId(owner_of(relation), false))));
}

bool speaks_for(const char* owner) {
    Oid role = owner == nullptr ? InvalidOid : get_role_oid(owner, true);
    if (!OidIsValid(role)) role = owner_of(catalog_table("machine"));
    return has_privs_of_role(GetUserId(), role);
}

void require_machine_owner(const char* machine, const char* owner) {
    if (speaks_for(owner)) return;
    if (owner == nullptr || !OidIsValid(get_role_oid(owner, true)))
        owner = GetUserNameFromId(owner_of(catalog_table("machine")), false);
    const char* user = GetUserNameFromId(GetUserId(), false);
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("must be owner of machine \"%s\"", machine),
                    errdetail("It belongs to role \"%s\".", owner),
                    errhint("GRANT %s TO %s; or, as its owner: SELECT pawl.set_machine_owner(%s, %s);",
                            quote_identifier(owner), quote_identifier(user), quote_literal_cstr(machine),
                            quote_literal_cstr(user))));
}

uint64 run_as_catalog_owner(const char* query, int n, Oid* types, Datum* values, const char* nulls) {
    Statement statement = {query, n, types, values, nulls, 0};
    with_rights_of(owner_of(catalog_table("machine")), execute, &statement);
    return statement.rows;
}

// pawl._store_binding(pawl.binding): a new binding of a table, log and view that the caller owns. The row is checked as
// it is when a session reads it.
PAWL_FUNCTION(pawl_store_binding) {
    struct Key {
        Oid relation;
        const char* column;
    };
    const Key key = pg::call([&] {
        Row row = row_argument(fcinfo, 0);
        require_owner(oid_of(row, "relation"));
        if (get_rel_persistence(oid_of(row, "relation")) == RELPERSISTENCE_TEMP)
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("%s is a temporary table", shown(oid_of(row, "relation")))));
        for (const char* other : {"history", "history_view", "locked_after"})
            if (OidIsValid(oid_of(row, other))) require_owner(oid_of(row, other));
        set(row, "extension", NAMEOID, static_cast<Datum>(0), true);  // the trigger of the table sets it
        sign(row, "enforced_by", "enforced_at");
        run_with_row("INSERT INTO pawl.binding SELECT ($1).*", row);
        return Key{oid_of(row, "relation"), name_of(row, "state_column")};
    });
    check_binding(key.relation, key.column);
    return static_cast<Datum>(0);
}

// pawl._change_binding(pawl.binding): what pawl.upgrade and the functions pawl.enable_... and pawl.set_... change of a
// binding.
PAWL_FUNCTION(pawl_change_binding) {
    struct Key {
        Oid relation;
        const char* column;
    };
    const Key key = pg::call([&] {
        Row row = row_argument(fcinfo, 0);
        require_owner(oid_of(row, "relation"));
        if (OidIsValid(oid_of(row, "locked_after"))) require_owner(oid_of(row, "locked_after"));
        // A log that the binding has already may belong to another role by now; another one must be the caller's.
        sign(row, "enforced_by", "enforced_at");
        const uint64 changes_log = run_with_row(
            "SELECT FROM pawl.binding b, (SELECT ($1).*) n "
            "WHERE b.relation = n.relation AND b.state_column = n.state_column "
            "AND (b.history IS DISTINCT FROM n.history OR b.history_view IS DISTINCT FROM n.history_view)",
            row);
        for (const char* other : {"history", "history_view"})
            if (changes_log > 0 && OidIsValid(oid_of(row, other))) require_owner(oid_of(row, other));
        run_with_row(
            "UPDATE pawl.binding b SET version = n.version, key_columns = n.key_columns, log_key_columns = "
            "n.log_key_columns, "
            "on_delete = n.on_delete, always = n.always, errors = n.errors, calls = n.calls, enforced_at = CASE WHEN "
            "b.history IS "
            "DISTINCT FROM n.history "
            "THEN n.enforced_at ELSE b.enforced_at END, "
            "history = n.history, history_view = n.history_view, most_recent = n.most_recent, hash_chain = "
            "n.hash_chain, "
            "owner_column = n.owner_column, lease_column = n.lease_column, token_column = n.token_column, "
            "attempts_column = n.attempts_column, max_attempts_column = n.max_attempts_column, "
            "queue_column = n.queue_column, due_column = n.due_column, claim_events = n.claim_events, "
            "claim_columns = n.claim_columns, claim_descending = n.claim_descending, lease_time = n.lease_time, "
            "on_expiry = n.on_expiry, on_expiry_else = n.on_expiry_else, retry_events = n.retry_events, "
            "backoff = n.backoff, backoff_column = n.backoff_column, operator_events = n.operator_events, "
            "events = n.events, events_since = n.events_since, wake = n.wake, "
            "trace_columns = n.trace_columns, locked_after = n.locked_after, log_token = n.log_token, "
            "result_columns = n.result_columns, may_place = n.may_place, validated = n.validated "
            "FROM (SELECT ($1).*) n WHERE b.relation = n.relation AND b.state_column = n.state_column",
            row);
        return Key{oid_of(row, "relation"), name_of(row, "state_column")};
    });
    check_binding(key.relation, key.column);
    return static_cast<Datum>(0);
}

// pawl._number_binding(relation): sets attribute numbers by column names, after a restore without triggers has kept
// those of another database. They are derived, so the caller gains nothing by it. Without the rights of the table's
// owner nothing is changed.
PAWL_FUNCTION(pawl_number_binding) {
    pg::call([&] {
        if (get_rel_relkind(PG_GETARG_OID(0)) == '\0' || !pg::owns_relation(PG_GETARG_OID(0), GetUserId())) return;
        Oid type = OIDOID;
        Datum value = PG_GETARG_DATUM(0);
        run_as_catalog_owner(
            "UPDATE pawl.binding b SET relation_oid = b.relation "
            "WHERE b.relation = $1 AND b.relation_oid IS DISTINCT FROM b.relation::oid",
            1, &type, &value, nullptr);
    });
    return static_cast<Datum>(0);
}

// pawl._hold_version(machine, version): keeps a version from being dropped before the end of the transaction.
PAWL_FUNCTION(pawl_hold_version) {
    pg::call([&] {
        Oid types[] = {TEXTOID, INT4OID};
        Datum values[] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)};
        run_as_catalog_owner("SELECT FROM pawl.machine m WHERE m.machine = $1 AND m.version = $2 FOR KEY SHARE", 2,
                             types, values, nullptr);
    });
    return static_cast<Datum>(0);
}

// pawl._store_audit(pawl.audit_binding): a new audit; the caller owns table, log and audit.
PAWL_FUNCTION(pawl_store_audit) {
    pg::call([&] {
        Row row = row_argument(fcinfo, 0);
        for (const char* table : {"relation", "log", "audit"}) require_owner(oid_of(row, table));
        sign(row, "audited_by", "audited_at");
        Oid type = OIDOID;
        Datum log = ObjectIdGetDatum(oid_of(row, "log"));
        run_as_catalog_owner("DELETE FROM pawl.pruned_audit p WHERE p.log = $1", 1, &type, &log, nullptr);
        const uint64 stored = run_with_row(
            "INSERT INTO pawl.audit_binding SELECT ($1).* "
            "WHERE EXISTS (SELECT FROM pawl.binding b WHERE b.history = ($1).log AND b.relation = ($1).relation "
            "AND pawl._audit_problem(($1), b.log_key_columns, false) IS NULL)",
            row);
        if (stored == 0)
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("%s cannot be the audit of table %s", shown(oid_of(row, "audit")),
                                   shown(oid_of(row, "relation"))),
                            errdetail("%s is not the log of the table, or their columns do not match.",
                                      shown(DatumGetObjectId(log))),
                            errhint("Use pawl.audit.")));
    });
    return static_cast<Datum>(0);
}

// pawl._move_audit(log, relation): assigns the audit of a reused log to a table.
PAWL_FUNCTION(pawl_move_audit) {
    pg::call([&] {
        require_owner(PG_GETARG_OID(0));
        require_owner(PG_GETARG_OID(1));
        Oid types[] = {OIDOID, OIDOID};
        Datum values[] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)};
        run_as_catalog_owner(
            "UPDATE pawl.audit_binding a SET relation = $2 WHERE a.log = $1 "
            "AND EXISTS (SELECT FROM pawl.binding b WHERE b.history = $1 AND b.relation = $2)",
            2, types, values, nullptr);
    });
    return static_cast<Datum>(0);
}

// pawl._drop_audit(log)
PAWL_FUNCTION(pawl_drop_audit) {
    pg::call([&] {
        require_owner(PG_GETARG_OID(0));
        Oid type = OIDOID;
        Datum value = PG_GETARG_DATUM(0);
        run_as_catalog_owner("DELETE FROM pawl.audit_binding a WHERE a.log = $1", 1, &type, &value, nullptr);
    });
    return static_cast<Datum>(0);
}

// pawl.set_machine_owner(machine, owner): as for ALTER ... OWNER TO, the caller must have the rights of both owners.
PAWL_FUNCTION(pawl_set_machine_owner) {
    pg::require(fcinfo, 0, "machine");
    pg::require(fcinfo, 1, "owner");
    pg::call([&] {
        const char* machine = TextDatumGetCString(PG_GETARG_DATUM(0));
        const char* owner = NameStr(*PG_GETARG_NAME(1));
        lock_own_machine(machine);
        const Oid role = get_role_oid(owner, false);
        if (!has_privs_of_role(GetUserId(), role))
            ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("must be a member of role \"%s\"", owner),
                            errhint("GRANT %s TO %s;", quote_identifier(owner),
                                    quote_identifier(GetUserNameFromId(GetUserId(), false)))));
        Oid types[] = {TEXTOID, TEXTOID};
        Datum values[] = {PG_GETARG_DATUM(0), CStringGetTextDatum(owner)};
        run_as_catalog_owner(
            "UPDATE pawl.machine m SET owner = $2 WHERE m.machine = $1 AND m.owner IS DISTINCT FROM $2", 2, types,
            values, nullptr);
    });
    return static_cast<Datum>(0);
}

// pawl.drop_machine(machine, version): a trigger of pawl.machine rejects the removal of versions in use.
PAWL_FUNCTION(pawl_drop_machine) {
    pg::require(fcinfo, 0, "machine");
    const uint64 dropped = pg::call([&] {
        lock_own_machine(TextDatumGetCString(PG_GETARG_DATUM(0)));
        Oid types[] = {TEXTOID, INT4OID};
        Datum values[] = {PG_GETARG_DATUM(0), PG_ARGISNULL(1) ? static_cast<Datum>(0) : PG_GETARG_DATUM(1)};
        const char nulls[] = {' ', PG_ARGISNULL(1) ? 'n' : ' ', '\0'};
        return run_as_catalog_owner(
            "DELETE FROM pawl.machine m WHERE m.machine = $1 AND ($2 IS NULL OR m.version = $2)", 2, types, values,
            nulls);
    });
    if (dropped == 0)
        throw pg::Failure(sqlstate::unknown_object, "the machine has no version " + std::to_string(PG_GETARG_INT32(1)),
                          {}, "SELECT machine, version FROM pawl.machine;");
    return Int32GetDatum(static_cast<int32>(dropped));
}

}  // namespace pawl
