// May throw and may ereport: pawl.audit_results(), which writes a row of the audit for every result that enters a log.
// Below the SQL function nothing owns anything.
#include "observe/audit.hpp"

#include "catalog/catalog.hpp"
#include "log/entry_buffer.hpp"
#include "log/layout.hpp"
#include "log/write_access.hpp"
#include "observe/audit_writer.hpp"
#include "pg/bridge.hpp"
#include "pg/spi.hpp"
#include "pg/texts.hpp"
#include "session/context.hpp"

extern "C" {
#include "catalog/partition.h"
#include "catalog/pg_authid.h"
#include "utils/tuplestore.h"
}

namespace pawl {

namespace {

using pg::view;

// The audit of a log: what its row in the catalog says, and, once there is a result to write, how. The statement holds
// the names that tables and columns had when it was made.
struct Audit {
    Audit* next;
    MemoryContext context;
    Oid trigger_table;  // the log, or a partition of it that rows were inserted into: the statement is planned for each
    Oid log;
    Oid table;
    Oid relation;  // the table whose parent columns are copied
    AuditedStates successes;
    AuditedStates failures;
    AuditedStates owned;
    AuditColumns columns;  // no keys: rows are written by the statement
    char* statement;       // null until it is prepared for writing
    SPIPlanPtr plan;
    int users;  // triggers may nest
    bool stale;
};

Audit* audits = nullptr;
Audit* dropped = nullptr;  // stale audits that a trigger was using when they were replaced
Oid audit_bindings = InvalidOid;
Oid bindings = InvalidOid;

void relation_changed(Datum, Oid relid) {
    for (Audit* audit = audits; audit != nullptr; audit = audit->next)
        if (!OidIsValid(relid) || relid == audit->trigger_table || relid == audit->log || relid == audit->table ||
            relid == audit->relation || relid == audit_bindings || relid == bindings)
            audit->stale = true;
}

// A schema was renamed.
void schema_changed(Datum, int, uint32) {
    relation_changed(static_cast<Datum>(0), InvalidOid);
}

void drop(Audit** link) {
    Audit* audit = *link;
    *link = audit->next;
    audit->next = dropped;
    dropped = audit;
}

// A trigger may still use one. After an error none is in use: see audit_results.
void free_dropped() {
    for (Audit** link = &dropped; *link != nullptr;) {
        Audit* audit = *link;
        if (audit->users > 0) {
            link = &audit->next;
            continue;
        }
        *link = audit->next;
        if (audit->plan != nullptr) SPI_freeplan(audit->plan);
        MemoryContextDelete(audit->context);
    }
}

Datum column(const char* name, bool* null) {
    return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, SPI_fnumber(SPI_tuptable->tupdesc, name), null);
}

AuditedStates states_column(const char* name, MemoryContext memory) {
    bool null;
    Datum array = column(name, &null);
    AuditedStates states = {};
    if (null) return states;
    MemoryContext caller = MemoryContextSwitchTo(memory);
    deconstruct_array(DatumGetArrayTypePCopy(array), TEXTOID, -1, false, TYPALIGN_INT, &states.names, nullptr,
                      &states.n);
    MemoryContextSwitchTo(caller);
    return states;
}

// Returns how many there are; 0 if the column is null.
int numbers_column(const char* name, AttrNumber* numbers) {
    bool null;
    Datum array = column(name, &null);
    if (null) return 0;
    Datum* elements;
    int n;
    deconstruct_array(DatumGetArrayTypeP(array), INT2OID, sizeof(int16), true, TYPALIGN_SHORT, &elements, nullptr, &n);
    for (int i = 0; i < n && i < INDEX_MAX_KEYS; ++i) numbers[i] = DatumGetInt16(elements[i]);
    return n;
}

// Reads with a new snapshot: the transaction's own may be older than the audit. Leaves the statement null while the log
// belongs to no binding: pawl.enable_log is taking it up again, and restores the audit when it is done.
void prepare(void* argument) {
    auto* audit = static_cast<Audit*>(argument);
    Oid type = OIDOID;
    Datum log = ObjectIdGetDatum(audit->trigger_table);
    PushActiveSnapshot(GetLatestSnapshot());
    SPI_connect();
    if (SPI_execute_with_args("SELECT * FROM pawl._audit_plan($1)", 1, &type, &log, nullptr, true, 1) !=
            SPI_OK_SELECT ||
        SPI_processed != 1)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not read pawl.audit_binding")));
    bool null;
    const Datum statement = column("statement", &null);
    if (!null) {
        audit->log = DatumGetObjectId(column("log", &null));
        audit->table = DatumGetObjectId(column("audit", &null));
        audit->relation = DatumGetObjectId(column("relation", &null));
        audit->owned = states_column("owned_states", audit->context);
        audit->columns.nkeys = numbers_column("log_keys", audit->columns.log_keys);
        numbers_column("audit_keys", audit->columns.audit_keys);
        audit->statement = MemoryContextStrdup(audit->context, TextDatumGetCString(statement));
    }
    SPI_finish();
    PopActiveSnapshot();
}

AuditedStates states_of(const CatalogRow& row, const char* column) {
    AuditedStates states = {};
    char** names = row.strings(column, &states.n);
    states.names = static_cast<Datum*>(palloc(sizeof(Datum) * Max(states.n, 1)));
    for (int i = 0; i < states.n; ++i) states.names[i] = CStringGetTextDatum(names[i]);
    return states;
}

void read_row(const CatalogRow& row, void* argument) {
    auto** found = static_cast<Audit**>(argument);
    MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "pawl audit", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(memory);
    auto* audit = static_cast<Audit*>(palloc0(sizeof(Audit)));
    audit->context = memory;
    audit->log = row.oid("log");
    audit->table = row.oid("audit");
    audit->relation = row.oid("relation");
    audit->successes = states_of(row, "success_states");
    audit->failures = states_of(row, "failure_states");
    MemoryContextSwitchTo(caller);
    *found = audit;
}

// The row of a log, or of the partitioned log that it belongs to; null: there is none.
Audit* read_audit(Relation log) {
    Audit* found = nullptr;
    List* tables = log->rd_rel->relispartition ? get_partition_ancestors(RelationGetRelid(log)) : NIL;
    tables = lcons_oid(RelationGetRelid(log), tables);
    for (int i = 0; i < list_length(tables) && found == nullptr; ++i)
        scan_audit_of(list_nth_oid(tables, i), read_row, &found);
    return found;
}

Audit* find_audit(Relation log) {
    for (Audit** link = &audits; *link != nullptr; link = &(*link)->next) {
        if ((*link)->trigger_table != RelationGetRelid(log)) continue;
        if (!(*link)->stale) return *link;
        drop(link);
        break;
    }
    free_dropped();
    audit_bindings = catalog_table("audit_binding");
    bindings = catalog_table("binding");
    Audit* audit = read_audit(log);
    if (audit == nullptr)
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("log \"%s\" has an audit trigger, but no audit", RelationGetRelationName(log)),
                 errdetail("pawl.audit_binding has no row for this log."), errhint("SELECT * FROM pawl.health();")));
    audit->trigger_table = RelationGetRelid(log);
    MemoryContextSetParent(audit->context, TopMemoryContext);
    audit->next = audits;
    audits = audit;
    return audit;
}

[[noreturn]] void reject_time(JsonbValue value) {
    const char* shown =
        value.type == jbvNumeric ? DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)))
        : value.type == jbvString ? psprintf("the text \"%s\"", pnstrdup(value.val.string.val, value.val.string.len))
                                  : "not a number";
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("execution_time_ms of a result must be a non-negative number"), errdetail("It is %s.", shown)));
}

// Searches where pawl._result_value does.
void check_time(Jsonb* metadata) {
    for (int path = 0; path < time_paths; ++path) {
        const JsonbValue value = time_at(metadata, path);
        if (value.type == jbvNull) continue;
        if (value.type != jbvNumeric) reject_time(value);
        const double number =
            DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow, NumericGetDatum(value.val.numeric)));
        if (!(number >= 0 && number < 9e18)) reject_time(value);
    }
}

void check_success(Jsonb* metadata, bool success, std::string_view state) {
    for (auto path : {std::initializer_list<const char*>{"success"}, {"result", "success"}}) {
        const JsonbValue value = value_at(metadata, path);
        if (value.type == jbvBool && value.val.boolean != success)
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                            errmsg("metadata contradicts state \"%.*s\", which is a %s", static_cast<int>(state.size()),
                                   state.data(), success ? "success" : "failure"),
                            errdetail("\"success\" is %s.", success ? "false" : "true")));
    }
}

// Whether the inserted rows have a result among them. Raises an error if a result contradicts itself.
bool has_results(const Audit& audit, TriggerData* trigger) {
    Relation log = trigger->tg_relation;
    const AttrNumber to_state = typed_column(log, "to_state", TEXTOID);
    const AttrNumber metadata = typed_column(log, "metadata", JSONBOID);
    TupleTableSlot* slot = MakeSingleTupleTableSlot(RelationGetDescr(log), &TTSOpsMinimalTuple);
    const int reader = tuplestore_alloc_read_pointer(trigger->tg_newtable, EXEC_FLAG_REWIND);
    tuplestore_select_read_pointer(trigger->tg_newtable, reader);
    tuplestore_rescan(trigger->tg_newtable);
    bool found = false;
    while (tuplestore_gettupleslot(trigger->tg_newtable, true, false, slot)) {
        bool null;
        Datum value = slot_getattr(slot, to_state, &null);
        if (null) continue;
        const std::string_view state = view(DatumGetTextPP(value));
        const bool success = audit.successes.contains(state);
        if (!success && !audit.failures.contains(state)) continue;
        found = true;
        value = slot_getattr(slot, metadata, &null);
        if (null) continue;
        check_time(DatumGetJsonbP(value));
        check_success(DatumGetJsonbP(value), success, state);
    }
    tuplestore_select_read_pointer(trigger->tg_newtable, 0);
    ExecDropSingleTupleTableSlot(slot);
    return found;
}

struct Writing {
    Audit* audit;
    TriggerData* trigger;
};

void write_results(void* argument) {
    auto* writing = static_cast<Writing*>(argument);
    Audit* audit = writing->audit;
    if (audit->columns.nkeys > 0)
        return write_audit({writing->trigger->tg_relation, audit->table, audit->columns, audit->successes,
                            audit->failures, audit->owned, writing->trigger->tg_newtable});
    SPI_connect();
    SPI_register_trigger_data(writing->trigger);
    if (audit->plan == nullptr) {
        SPIPlanPtr plan = pg::prepare(audit->statement, 0, nullptr);
        SPI_keepplan(plan);
        audit->plan = plan;
    }
    const int result = SPI_execute_plan(audit->plan, nullptr, nullptr, false, 0);
    if (result != SPI_OK_INSERT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("could not write an audit: %s", SPI_result_code_string(result))));
    SPI_finish();
}

void audit_results(TriggerData* trigger) {
    // On a subscriber, the publisher wrote the audit and replicates it if the audit table is published.
    if (SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA && !entry_buffer_is_writing()) return;
    Audit* audit = find_audit(trigger->tg_relation);
    if (!has_results(*audit, trigger)) return;
    Writing writing = {audit, trigger};
    ++audit->users;
    PG_TRY();
    {
        if (audit->statement == nullptr) with_rights_of(BOOTSTRAP_SUPERUSERID, prepare, audit);
        if (audit->statement != nullptr)
            with_write_access(owner_of(audit->table), audit->table, InvalidOid, write_results, &writing);
    }
    PG_FINALLY();
    { --audit->users; }
    PG_END_TRY();
}

}  // namespace

void register_audit_callbacks() {
    CacheRegisterRelcacheCallback(relation_changed, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(NAMESPACEOID, schema_changed, static_cast<Datum>(0));
}

PAWL_FUNCTION(pawl_audit_results) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED, "pawl.audit_results() is a trigger function");
    auto* trigger = reinterpret_cast<TriggerData*>(fcinfo->context);
    if (!TRIGGER_FIRED_AFTER(trigger->tg_event) || !TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event) ||
        !TRIGGER_FIRED_BY_INSERT(trigger->tg_event) || trigger->tg_newtable == nullptr)
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                          "pawl.audit_results() must be fired AFTER INSERT FOR EACH STATEMENT with a transition table",
                          {}, "Triggers with it are made by pawl.audit.");
    if (!is_restoring()) pg::call([&] { audit_results(trigger); });  // a dump contains the audit, too
    return PointerGetDatum(nullptr);
}

}  // namespace pawl
