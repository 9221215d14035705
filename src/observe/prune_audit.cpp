// May throw and may ereport. pawl._prune_audit, the only function that may DELETE from audits.
#include "log/write_access.hpp"
#include "pg/bridge.hpp"
#include "pg/spi.hpp"

extern "C" {
#include "catalog/pg_authid.h"
}

namespace pawl {

namespace {

// One call. pawl._prune_audit_plan makes the statement.
struct AuditPruning {
    Oid log;
    TimestampTz cutoff;
    int32 batch;
    Oid audit;
    char* statement;
    int64 removed;
};

Datum result(int column, bool* null) {
    return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column, null);
}

void plan_audit(void* argument) {
    auto* pruning = static_cast<AuditPruning*>(argument);
    MemoryContext caller = CurrentMemoryContext;
    SPI_connect();
    Oid types[] = {OIDOID, TIMESTAMPTZOID};
    Datum values[] = {ObjectIdGetDatum(pruning->log), TimestampTzGetDatum(pruning->cutoff)};
    pg::run_for_row("SELECT p.audit, p.statement FROM pawl._prune_audit_plan($1, $2) p", 2, types, values);
    bool null;
    pruning->audit = DatumGetObjectId(result(1, &null));
    Datum statement = result(2, &null);
    pruning->statement = MemoryContextStrdup(caller, TextDatumGetCString(statement));
    SPI_finish();
}

void prune_audit(void* argument) {
    auto* pruning = static_cast<AuditPruning*>(argument);
    Oid types[] = {TIMESTAMPTZOID, INT8OID};
    Datum values[] = {TimestampTzGetDatum(pruning->cutoff), Int64GetDatum(pruning->batch)};
    bool null;
    SPI_connect();
    pg::run_for_row(pruning->statement, 2, types, values);
    pruning->removed = DatumGetInt64(result(1, &null));
    SPI_finish();
}

}  // namespace

PAWL_FUNCTION(pawl_prune_audit) {
    AuditPruning pruning = {};
    pruning.log = PG_GETARG_OID(0);
    pruning.cutoff = PG_GETARG_TIMESTAMPTZ(1);
    pruning.batch = Max(PG_GETARG_INT32(2), 1);
    return pg::call([&] {
        with_rights_of(BOOTSTRAP_SUPERUSERID, plan_audit, &pruning);
        check_may_remove(pruning.audit);
        with_write_access(owner_of(pruning.audit), pruning.audit, InvalidOid, prune_audit, &pruning, Reach::confined);
        return Int64GetDatum(pruning.removed);
    });
}

}  // namespace pawl
