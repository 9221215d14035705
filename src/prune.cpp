// May throw and may ereport: pawl._prune and pawl._prune_audit, the only ones for whom the guards of logs and audits open. Below the
// shells nothing owns anything.
#include "pg/bridge.hpp"
#include "pg/spi.hpp"
#include "record.hpp"

extern "C" {
#include "catalog/pg_authid.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
}

namespace pawl {

namespace {

constexpr BlockNumber window = 128;     // pages looked at by one statement
constexpr BlockNumber at_most = 16384;  // pages looked at by one call

// One call; the statements are made by pawl._prune_plan and pawl._prune_audit_plan.
struct Pruning {
    Oid log;
    TimestampTz cutoff;
    bool only_terminal;
    int32 batch;
    Oid record;  // the anchors, or the audit
    int64 next_block;
    char* prefixes;
    char* ends;
    char* remove_ends;
    int64 removed;
    bool more;
};

void require_right(Oid relation) {
    if (!OidIsValid(relation) || get_rel_relkind(relation) == '\0')
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", relation)));
    if (pg::owns_relation(relation, GetUserId()) || has_privs_of_role(GetUserId(), get_role_oid("pawl_admin", false))) return;
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("must be owner of table %s, or a member of pawl_admin", get_rel_name(relation)),
                    errdetail("What is removed from the record is gone.")));
}

Datum result(int column, bool* null) { return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column, null); }

char* text_result(int column, MemoryContext memory) {
    bool null;
    Datum value = result(column, &null);
    return null ? nullptr : MemoryContextStrdup(memory, TextDatumGetCString(value));
}

// Runs a statement that returns one row.
void run(const char* statement, int n, Oid* types, Datum* values) {
    const int code = SPI_execute_with_args(statement, n, types, values, nullptr, false, 0);
    if (code != SPI_OK_SELECT || SPI_processed != 1)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not prune: %s", SPI_result_code_string(code)), errdetail("%s", statement)));
}

void plan_log(void* argument) {
    auto* pruning = static_cast<Pruning*>(argument);
    MemoryContext caller = CurrentMemoryContext;
    SPI_connect();
    Oid types[] = {OIDOID, TIMESTAMPTZOID, BOOLOID};
    Datum values[] = {ObjectIdGetDatum(pruning->log), TimestampTzGetDatum(pruning->cutoff), BoolGetDatum(pruning->only_terminal)};
    run("SELECT p.anchors, p.next_block, p.prefixes, p.ends, p.remove_ends FROM pawl._prune_plan($1, $2, $3) p", 3, types, values);
    bool null;
    pruning->record = DatumGetObjectId(result(1, &null));
    pruning->next_block = DatumGetInt64(result(2, &null));
    pruning->prefixes = text_result(3, caller);
    pruning->ends = text_result(4, caller);
    pruning->remove_ends = text_result(5, caller);
    SPI_finish();
}

int64 prune_ends(Pruning* pruning, Oid* types, Datum* values) {
    bool null;
    run(pruning->ends, 4, types, values);
    Datum found = result(1, &null);
    if (null) return 0;
    Oid array = get_array_type(TIDOID);
    run(pruning->remove_ends, 1, &array, &found);
    return DatumGetInt64(result(1, &null));
}

// Entries of the subjects that are seen on these pages. False: the batch is full.
bool prune_pages(Pruning* pruning, BlockNumber from, BlockNumber to) {
    ItemPointerData first;
    ItemPointerData last;
    ItemPointerSet(&first, from, 0);
    ItemPointerSet(&last, to, 0);
    Oid types[] = {TIDOID, TIDOID, TIMESTAMPTZOID, INT8OID};
    Datum values[] = {PointerGetDatum(&first), PointerGetDatum(&last), TimestampTzGetDatum(pruning->cutoff),
                      Int64GetDatum(pruning->batch - pruning->removed)};
    bool null;
    SPI_connect();
    run(pruning->prefixes, 4, types, values);
    pruning->removed += DatumGetInt64(result(1, &null));
    values[3] = Int64GetDatum(pruning->batch - pruning->removed);
    if (pruning->removed < pruning->batch) pruning->removed += prune_ends(pruning, types, values);
    SPI_finish();
    return pruning->removed < pruning->batch;
}

// A plan that reads the whole log for every few pages would be no plan; statistics may be missing or old. Undone with the rights.
void plan_by_index() {
    for (const char* name : {"enable_seqscan", "enable_hashjoin", "enable_mergejoin"})
        set_config_option(name, "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

void prune_log(void* argument) {
    auto* pruning = static_cast<Pruning*>(argument);
    plan_by_index();
    Relation log = table_open(pruning->log, RowExclusiveLock);
    const BlockNumber end = RelationGetNumberOfBlocks(log);
    BlockNumber block = pruning->next_block < end ? static_cast<BlockNumber>(pruning->next_block) : 0;
    const BlockNumber stop = Min(end, block + at_most);
    while (block < stop) {
        CHECK_FOR_INTERRUPTS();
        const BlockNumber next = Min(stop, block + window);
        if (!prune_pages(pruning, block, next)) break;
        block = next;
    }
    pruning->more = block < end;
    pruning->next_block = pruning->more ? block : 0;
    table_close(log, NoLock);
}

void remember_place(void* argument) {
    auto* pruning = static_cast<Pruning*>(argument);
    Oid types[] = {OIDOID, INT8OID};
    Datum values[] = {ObjectIdGetDatum(pruning->log), Int64GetDatum(pruning->next_block)};
    SPI_connect();
    if (SPI_execute_with_args("UPDATE pawl.pruned_log p SET next_block = $2 WHERE p.log = $1", 2, types, values, nullptr, false, 0) != SPI_OK_UPDATE)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not write pawl.pruned_log")));
    SPI_finish();
}

void plan_audit(void* argument) {
    auto* pruning = static_cast<Pruning*>(argument);
    MemoryContext caller = CurrentMemoryContext;
    SPI_connect();
    Oid types[] = {OIDOID, TIMESTAMPTZOID};
    Datum values[] = {ObjectIdGetDatum(pruning->log), TimestampTzGetDatum(pruning->cutoff)};
    run("SELECT p.audit, p.statement FROM pawl._prune_audit_plan($1, $2) p", 2, types, values);
    bool null;
    pruning->record = DatumGetObjectId(result(1, &null));
    pruning->prefixes = text_result(2, caller);
    SPI_finish();
}

void prune_audit(void* argument) {
    auto* pruning = static_cast<Pruning*>(argument);
    Oid types[] = {TIMESTAMPTZOID, INT8OID};
    Datum values[] = {TimestampTzGetDatum(pruning->cutoff), Int64GetDatum(pruning->batch)};
    bool null;
    SPI_connect();
    run(pruning->prefixes, 2, types, values);
    pruning->removed = DatumGetInt64(result(1, &null));
    SPI_finish();
}

Datum as_row(FunctionCallInfo fcinfo, const Pruning& pruning) {
    TupleDesc descriptor;
    if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("pawl._prune must be called where a row can be returned")));
    Datum values[] = {Int64GetDatum(pruning.removed), BoolGetDatum(pruning.more)};
    bool nulls[] = {false, false};
    return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

}  // namespace

PAWL_FUNCTION(pawl_prune) {
    Pruning pruning = {};
    pruning.log = PG_GETARG_OID(0);
    pruning.cutoff = PG_GETARG_TIMESTAMPTZ(1);
    pruning.only_terminal = PG_GETARG_BOOL(2);
    pruning.batch = Max(PG_GETARG_INT32(3), 1);
    return pg::call([&] {
        require_right(pruning.log);
        with_rights_of(BOOTSTRAP_SUPERUSERID, plan_log, &pruning);
        with_open_records(owner_of(pruning.log), pruning.log, pruning.record, prune_log, &pruning);
        with_rights_of(BOOTSTRAP_SUPERUSERID, remember_place, &pruning);
        return as_row(fcinfo, pruning);
    });
}

PAWL_FUNCTION(pawl_prune_audit) {
    Pruning pruning = {};
    pruning.log = PG_GETARG_OID(0);
    pruning.cutoff = PG_GETARG_TIMESTAMPTZ(1);
    pruning.batch = Max(PG_GETARG_INT32(2), 1);
    return pg::call([&] {
        with_rights_of(BOOTSTRAP_SUPERUSERID, plan_audit, &pruning);
        require_right(pruning.record);
        with_open_records(owner_of(pruning.record), pruning.record, InvalidOid, prune_audit, &pruning);
        return Int64GetDatum(pruning.removed);
    });
}

}  // namespace pawl
