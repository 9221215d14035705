// May throw and may ereport. pawl._redact, the only function with write access for an UPDATE of logs. Functions other
// than the SQL function own nothing.
#include "catalog/catalog.hpp"
#include "catalog/key_column.hpp"
#include "log/write_access.hpp"
#include "pg/bridge.hpp"

extern "C" {
#include "catalog/pg_authid.h"
#include "utils/acl.h"
}

namespace pawl {

namespace {

// One call. Its values and statements live in the caller's memory context.
struct Redaction {
    Oid relation;
    Oid log;    // InvalidOid: none
    Oid audit;  // InvalidOid: none
    Datum state_column;
    Datum key;
    Datum fields;
    Datum reason;
    Oid role;  // the caller
    char* find_row;
    char* key_at;
    char* find_entry;
    char* key_in;
    char* redact_log;
    char* redact_results;
    Datum changed[4];  // of the changed entries: ids, processors, correlation ids, metadata
    Datum kept[3];     // of all entries of the row, as they are now: ids, processors, correlation ids
    int64 entries;
    int64 results;
    int64 events;
};

Datum result(int column, bool* null) {
    return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column, null);
}

Datum array_result(int column) {
    bool null;
    return SPI_datumTransfer(result(column, &null), false, -1);
}

char* text_result(int column) {
    bool null;
    const Datum value = result(column, &null);
    return null ? nullptr : text_to_cstring(DatumGetTextPP(SPI_datumTransfer(value, false, -1)));
}

// Runs a statement and returns the first column of its one row.
int64 count_of(const char* statement, int n, Oid* types, Datum* values) {
    const int code = SPI_execute_with_args(statement, n, types, values, nullptr, false, 0);
    if (code != SPI_OK_SELECT || SPI_processed != 1)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not redact: %s", SPI_result_code_string(code)),
                        errdetail("%s", statement)));
    bool null;
    return DatumGetInt64(result(1, &null));
}

void plan(void* argument) {
    auto* redaction = static_cast<Redaction*>(argument);
    MemoryContext caller = CurrentMemoryContext;
    Oid types[] = {OIDOID, NAMEOID, TEXTARRAYOID};
    Datum values[] = {ObjectIdGetDatum(redaction->relation), redaction->state_column, redaction->fields};
    SPI_connect();
    if (SPI_execute_with_args("SELECT * FROM pawl._redact_plan($1, $2, $3)", 3, types, values, nullptr, false, 0) !=
            SPI_OK_SELECT ||
        SPI_processed != 1)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not plan what to redact")));
    bool null;
    Datum value = result(1, &null);
    redaction->log = null ? InvalidOid : DatumGetObjectId(value);
    value = result(2, &null);
    redaction->audit = null ? InvalidOid : DatumGetObjectId(value);
    MemoryContext spi = MemoryContextSwitchTo(caller);
    int column = 3;
    for (char** text : {&redaction->find_row, &redaction->key_at, &redaction->find_entry, &redaction->key_in,
                        &redaction->redact_log, &redaction->redact_results})
        *text = text_result(column++);
    MemoryContextSwitchTo(spi);
    SPI_finish();
}

void require_rights(const Redaction& redaction) {
    if (superuser_arg(redaction.role)) return;
    bool may = has_privs_of_role(redaction.role, get_role_oid("pawl_admin", false));
    for (Oid relation : {redaction.relation, redaction.log, redaction.audit})
        if (OidIsValid(relation)) may = may && pg::owns_relation(relation, redaction.role);
    if (!may)
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("must be a member of pawl_admin and owner of table %s, its log and its audit",
                               get_rel_name(redaction.relation)),
                        errdetail("Redacted values cannot be restored.")));
}

// Replaces the caller's key by the stored form that the outbox and pawl.redaction use, which is the same in every
// session. `find` locates the row, `key` reads its key. Returns false if there is no row.
bool use_stored_key(Redaction* redaction, const char* find, const char* key) {
    Oid type = TEXTARRAYOID;
    if (SPI_execute_with_args(find, 1, &type, &redaction->key, nullptr, false, 0) != SPI_OK_SELECT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not find the row")));
    if (SPI_processed != 1) return false;
    bool null;
    Oid types[] = {OIDOID, TIDOID};
    Datum place[] = {result(1, &null), SPI_datumTransfer(result(2, &null), false, sizeof(ItemPointerData))};
    const int level = begin_fixed_text();
    if (SPI_execute_with_args(key, 2, types, place, nullptr, false, 0) == SPI_OK_SELECT && SPI_processed == 1)
        redaction->key = array_result(1);
    AtEOXact_GUC(true, level);
    return true;
}

// Locks the row, so that no other session adds to its log. If there is no row, locks the whole log.
void lock_subject(void* argument) {
    auto* redaction = static_cast<Redaction*>(argument);
    SPI_connect();
    if (!use_stored_key(redaction, redaction->find_row, redaction->key_at) && OidIsValid(redaction->log))
        LockRelationOid(redaction->log, ShareRowExclusiveLock);
    SPI_finish();
}

// With the rights of the log's owner.
void find_in_log(void* argument) {
    auto* redaction = static_cast<Redaction*>(argument);
    SPI_connect();
    use_stored_key(redaction, redaction->find_entry, redaction->key_in);
    SPI_finish();
}

void redact_log(void* argument) {
    auto* redaction = static_cast<Redaction*>(argument);
    Oid types[] = {TEXTARRAYOID, TEXTARRAYOID};
    Datum values[] = {redaction->key, redaction->fields};
    SPI_connect();
    redaction->entries = count_of(redaction->redact_log, 2, types, values);
    for (int i = 0; i < 4; ++i) redaction->changed[i] = array_result(2 + i);
    for (int i = 0; i < 3; ++i) redaction->kept[i] = array_result(6 + i);
    SPI_finish();
}

void redact_results(void* argument) {
    auto* redaction = static_cast<Redaction*>(argument);
    Oid types[] = {TEXTARRAYOID, TEXTARRAYOID, UUIDARRAYOID, TEXTARRAYOID, TEXTARRAYOID};
    Datum values[] = {redaction->key, redaction->fields, redaction->kept[0], redaction->kept[1], redaction->kept[2]};
    SPI_connect();
    redaction->results = count_of(redaction->redact_results, 5, types, values);
    SPI_finish();
}

// Runs with the rights of the extension's owner, so it must not evaluate values of users' types.
void redact_events(void* argument) {
    auto* redaction = static_cast<Redaction*>(argument);
    SPI_connect();
    for (int i = 1; i <= 3; ++i) {
        if (OidIsValid(redaction->log)) {
            Oid types[] = {UUIDARRAYOID, TEXTARRAYOID, TEXTARRAYOID, JSONBARRAYOID};
            redaction->events += count_of(
                psprintf("WITH changed AS (UPDATE pawl.outbox_%d o SET processor = r.processor, correlation_id = "
                         "r.correlation_id, "
                         "metadata = r.metadata FROM unnest($1, $2, $3, $4) r(id, processor, correlation_id, metadata) "
                         "WHERE o.log_id = r.id RETURNING 1) SELECT pg_catalog.count(*) FROM changed",
                         i),
                4, types, redaction->changed);
        }
        // events of no log, or of entries that were pruned
        Oid types[] = {OIDOID, NAMEOID, TEXTARRAYOID, TEXTARRAYOID};
        Datum values[] = {ObjectIdGetDatum(redaction->relation), redaction->state_column, redaction->key,
                          redaction->fields};
        redaction->events += count_of(
            psprintf("WITH changed AS (UPDATE pawl.outbox_%d o SET processor = r.processor, correlation_id = "
                     "r.correlation_id, "
                     "metadata = r.metadata FROM (SELECT o.ctid AS place, r.* FROM pawl.outbox_%d o CROSS JOIN LATERAL "
                     "pawl._redacted($4, o.processor, o.correlation_id, o.metadata, uuid_send(gen_random_uuid()), "
                     "NULL, false) r "
                     "WHERE o.relation = $1 AND o.state_column = $2 AND o.key = $3 AND r.changed) r "
                     "WHERE o.ctid = r.place RETURNING 1) SELECT pg_catalog.count(*) FROM changed",
                     i, i),
            4, types, values);
    }
    SPI_finish();
}

void store_redaction(void* argument) {
    auto* redaction = static_cast<Redaction*>(argument);
    Oid types[] = {OIDOID, NAMEOID, TEXTARRAYOID, TEXTARRAYOID, TEXTOID, INT8OID, INT8OID, INT8OID, TEXTOID, OIDOID};
    Datum values[] = {ObjectIdGetDatum(redaction->relation),
                      redaction->state_column,
                      redaction->key,
                      redaction->fields,
                      redaction->reason,
                      Int64GetDatum(redaction->entries),
                      Int64GetDatum(redaction->results),
                      Int64GetDatum(redaction->events),
                      CStringGetTextDatum(GetUserNameFromId(redaction->role, false)),
                      ObjectIdGetDatum(redaction->log)};
    SPI_connect();
    if (SPI_execute_with_args("INSERT INTO pawl.redaction (relation, state_column, key, fields, reason, entries, "
                              "results, events, redacted_by, log) "
                              "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, nullif($10, 0))",
                              10, types, values, nullptr, false, 0) != SPI_OK_INSERT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not write pawl.redaction")));
    SPI_finish();
}

void redact_records(Redaction* redaction) {
    redacting = true;
    PG_TRY();
    {
        if (OidIsValid(redaction->log))
            with_write_access(owner_of(redaction->log), redaction->log, InvalidOid, redact_log, redaction,
                              Reach::confined);
        if (OidIsValid(redaction->audit))
            with_write_access(owner_of(redaction->audit), redaction->audit, InvalidOid, redact_results, redaction,
                              Reach::confined);
    }
    PG_FINALLY();
    { redacting = false; }
    PG_END_TRY();
}

}  // namespace

PAWL_FUNCTION(pawl_redact) {
    Redaction redaction = {};
    redaction.relation = PG_GETARG_OID(0);
    redaction.state_column = PG_GETARG_DATUM(1);
    return pg::call([&] {
        redaction.key = PG_GETARG_DATUM(2);
        redaction.fields = PG_GETARG_DATUM(3);
        redaction.reason = PG_GETARG_DATUM(4);
        redaction.role = GetUserId();
        with_rights_of(BOOTSTRAP_SUPERUSERID, plan, &redaction);
        require_rights(redaction);
        with_rights_of(owner_of(redaction.relation), lock_subject, &redaction, Reach::confined);
        if (OidIsValid(redaction.log))
            with_rights_of(owner_of(redaction.log), find_in_log, &redaction, Reach::confined);
        redact_records(&redaction);
        with_rights_of(BOOTSTRAP_SUPERUSERID, redact_events, &redaction);
        with_rights_of(BOOTSTRAP_SUPERUSERID, store_redaction, &redaction);
        return Int64GetDatum(redaction.entries);
    });
}

}  // namespace pawl
