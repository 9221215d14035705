// May throw and may ereport. pawl._prune and pawl._prune_audit, the only functions that may DELETE from logs and
// audits. Functions other than the SQL functions own nothing.
#include "log/prune_whole.hpp"
#include "log/write_access.hpp"
#include "pg/bridge.hpp"
#include "pg/spi.hpp"

extern "C" {
#include "catalog/pg_authid.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
}

namespace pawl {

namespace {

constexpr BlockNumber window = 128;     // pages scanned by one statement
constexpr BlockNumber at_most = 16384;  // pages scanned by one call

// A table of the log: the log itself, or a partition. pawl._prune_plan makes the statements.
struct Part {
    Oid table;
    int64 next_block;
    char* prefixes;
    char* ends;
    char* remove_ends;
    WholePart whole;
};

// One call.
struct Pruning {
    Oid log;
    TimestampTz cutoff;
    bool only_terminal;
    int32 batch;
    Oid record;  // the table of anchors, or the audit
    Part* parts;
    int nparts;
    const Part* part;  // the current one
    char* statement;   // for audits
    BlockNumber looked_at;
    int64 removed;
    Oid next_leaf;
    int64 next_block;
    bool more;
    List* emptied;
    List* droppable;
    List* dropped;
};

void require_right(Oid relation) {
    if (!OidIsValid(relation) || get_rel_relkind(relation) == '\0')
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", relation)));
    if (pg::owns_relation(relation, GetUserId()) || has_privs_of_role(GetUserId(), get_role_oid("pawl_admin", false)))
        return;
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                    errmsg("must be owner of table %s, or a member of pawl_admin", get_rel_name(relation)),
                    errdetail("Removed entries cannot be restored.")));
}

Datum result(int column, bool* null) {
    return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column, null);
}

char* text_result(int column, MemoryContext memory) {
    bool null;
    Datum value = result(column, &null);
    return null ? nullptr : MemoryContextStrdup(memory, TextDatumGetCString(value));
}

// Runs a statement that returns one row.
void run(const char* statement, int n, Oid* types, Datum* values) {
    const int code = SPI_execute_with_args(statement, n, types, values, nullptr, false, 0);
    if (code != SPI_OK_SELECT || SPI_processed != 1)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not prune: %s", SPI_result_code_string(code)),
                        errdetail("%s", statement)));
}

char* text_of(HeapTuple row, const char* column, MemoryContext memory) {
    bool null;
    Datum value = SPI_getbinval(row, SPI_tuptable->tupdesc, SPI_fnumber(SPI_tuptable->tupdesc, column), &null);
    return null ? nullptr : MemoryContextStrdup(memory, TextDatumGetCString(value));
}

Datum value_of(HeapTuple row, const char* column) {
    bool null;
    return SPI_getbinval(row, SPI_tuptable->tupdesc, SPI_fnumber(SPI_tuptable->tupdesc, column), &null);
}

Part read_part(HeapTuple row, MemoryContext memory) {
    Part part = {};
    part.table = DatumGetObjectId(value_of(row, "leaf"));
    part.next_block = DatumGetInt64(value_of(row, "next_block"));
    part.prefixes = text_of(row, "prefixes", memory);
    part.ends = text_of(row, "ends", memory);
    part.remove_ends = text_of(row, "remove_ends", memory);
    part.whole.table = part.table;
    part.whole.looks_old = text_of(row, "looks_old", memory);
    part.whole.may_go = text_of(row, "may_go", memory);
    part.whole.count_all = text_of(row, "count_all", memory);
    part.whole.keep_ends = text_of(row, "keep_ends", memory);
    part.whole.emptied = DatumGetBool(value_of(row, "emptied"));
    return part;
}

void plan_log(void* argument) {
    auto* pruning = static_cast<Pruning*>(argument);
    MemoryContext caller = CurrentMemoryContext;
    SPI_connect();
    Oid types[] = {OIDOID, TIMESTAMPTZOID, BOOLOID};
    Datum values[] = {ObjectIdGetDatum(pruning->log), TimestampTzGetDatum(pruning->cutoff),
                      BoolGetDatum(pruning->only_terminal)};
    if (SPI_execute_with_args("SELECT * FROM pawl._prune_plan($1, $2, $3)", 3, types, values, nullptr, false, 0) !=
        SPI_OK_SELECT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not plan what to prune")));
    pruning->nparts = static_cast<int>(SPI_processed);
    pruning->parts = static_cast<Part*>(MemoryContextAllocZero(caller, sizeof(Part) * Max(pruning->nparts, 1)));
    for (int i = 0; i < pruning->nparts; ++i) {
        pruning->parts[i] = read_part(SPI_tuptable->vals[i], caller);
        pruning->record = DatumGetObjectId(value_of(SPI_tuptable->vals[i], "anchors"));
    }
    SPI_finish();
}

int64 prune_ends(Pruning* pruning, Oid* types, Datum* values) {
    bool null;
    run(pruning->part->ends, 4, types, values);
    Datum found = result(1, &null);
    if (null) return 0;
    Oid array = get_array_type(TIDOID);
    run(pruning->part->remove_ends, 1, &array, &found);
    return DatumGetInt64(result(1, &null));
}

// Removes entries of the subjects found on these pages. False: the batch is full.
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
    run(pruning->part->prefixes, 4, types, values);
    pruning->removed += DatumGetInt64(result(1, &null));
    values[3] = Int64GetDatum(pruning->batch - pruning->removed);
    if (pruning->removed < pruning->batch) pruning->removed += prune_ends(pruning, types, values);
    SPI_finish();
    return pruning->removed < pruning->batch;
}

// Statistics may be missing or old, and a plan that reads the whole log for each window of pages would be too slow.
// with_rights_of restores the settings.
void plan_by_index() {
    for (const char* name : {"enable_seqscan", "enable_hashjoin", "enable_mergejoin"})
        set_config_option(name, "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

// Removes entries row by row, one window of pages after the other.
void prune_rows(void* argument) {
    auto* pruning = static_cast<Pruning*>(argument);
    plan_by_index();
    Relation table = table_open(pruning->part->table, RowExclusiveLock);
    const BlockNumber end = RelationGetNumberOfBlocks(table);
    BlockNumber block = pruning->part->next_block < end ? static_cast<BlockNumber>(pruning->part->next_block) : 0;
    const BlockNumber stop = Min(end, block + (at_most - pruning->looked_at));
    pruning->looked_at += stop - block;
    while (block < stop) {
        CHECK_FOR_INTERRUPTS();
        const BlockNumber next = Min(stop, block + window);
        if (!prune_pages(pruning, block, next)) break;
        block = next;
    }
    pruning->more = block < end;
    pruning->next_leaf = pruning->more ? pruning->part->table : InvalidOid;
    pruning->next_block = pruning->more ? block : 0;
    table_close(table, NoLock);
}

struct WholeStep {
    Pruning* pruning;
    WholeResult result;
};

void prune_whole(void* argument) {
    auto* step = static_cast<WholeStep*>(argument);
    step->result = empty_part(step->pruning->part->whole, step->pruning->cutoff);
}

// Empties the partition as a whole, if possible. Returns whether nothing is left to remove row by row.
bool go_as_a_whole(Pruning* pruning, Oid owner) {
    const Part& part = *pruning->part;
    if (part.whole.may_go == nullptr || part.next_block > 0) return false;
    WholeStep step = {pruning, {}};
    with_write_access(owner, part.table, pruning->record, prune_whole, &step, Reach::confined);
    pruning->removed += step.result.removed;
    if (step.result.emptied) pruning->emptied = lappend_oid(pruning->emptied, part.table);
    if (step.result.droppable) pruning->droppable = lappend_oid(pruning->droppable, part.table);
    return step.result.done;
}

void drop_parts(void* argument) {
    auto* pruning = static_cast<Pruning*>(argument);
    int patience = 50;
    ListCell* cell;
    foreach (cell, pruning->droppable)
        if (drop_part(lfirst_oid(cell), pruning->log, &patience))
            pruning->dropped = lappend_oid(pruning->dropped, lfirst_oid(cell));
}

void prune_parts(Pruning* pruning) {
    const Oid owner = owner_of(pruning->log);
    for (int i = 0; i < pruning->nparts && !pruning->more; ++i) {
        pruning->part = &pruning->parts[i];
        if (pruning->removed >= pruning->batch || pruning->looked_at >= at_most) {
            pruning->more = true;
            pruning->next_leaf = pruning->part->table;
        } else if (!go_as_a_whole(pruning, owner)) {
            with_write_access(owner, pruning->part->table, pruning->record, prune_rows, pruning, Reach::confined);
        }
    }
    with_rights_of(owner, drop_parts, pruning, Reach::confined);  // last, because it locks the log against writers
}

Datum as_array(List* tables) {
    Datum* elements = static_cast<Datum*>(palloc(sizeof(Datum) * Max(list_length(tables), 1)));
    int n = 0;
    ListCell* cell;
    foreach (cell, tables) elements[n++] = ObjectIdGetDatum(lfirst_oid(cell));
    return PointerGetDatum(construct_array(elements, n, OIDOID, sizeof(Oid), true, TYPALIGN_INT));
}

void remember_place(void* argument) {
    auto* pruning = static_cast<Pruning*>(argument);
    Oid types[] = {OIDOID, INT8OID, OIDOID, OIDARRAYOID, OIDARRAYOID};
    Datum values[] = {ObjectIdGetDatum(pruning->log), Int64GetDatum(pruning->next_block),
                      ObjectIdGetDatum(pruning->next_leaf), as_array(pruning->emptied), as_array(pruning->dropped)};
    SPI_connect();
    if (SPI_execute_with_args("UPDATE pawl.pruned_log p SET next_block = $2, next_leaf = $3, emptied = ARRAY("
                              "SELECT DISTINCT e FROM pg_catalog.unnest(p.emptied::pg_catalog.oid[] || $4) e WHERE e "
                              "<> ALL ($5) ORDER BY e)::pg_catalog.regclass[] "
                              "WHERE p.log = $1",
                              5, types, values, nullptr, false, 0) != SPI_OK_UPDATE)
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
    pruning->statement = text_result(2, caller);
    SPI_finish();
}

void prune_audit(void* argument) {
    auto* pruning = static_cast<Pruning*>(argument);
    Oid types[] = {TIMESTAMPTZOID, INT8OID};
    Datum values[] = {TimestampTzGetDatum(pruning->cutoff), Int64GetDatum(pruning->batch)};
    bool null;
    SPI_connect();
    run(pruning->statement, 2, types, values);
    pruning->removed = DatumGetInt64(result(1, &null));
    SPI_finish();
}

Datum as_row(FunctionCallInfo fcinfo, const Pruning& pruning) {
    TupleDesc descriptor;
    if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("pawl._prune must be called where a row can be returned")));
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
        prune_parts(&pruning);
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
        with_write_access(owner_of(pruning.record), pruning.record, InvalidOid, prune_audit, &pruning, Reach::confined);
        return Int64GetDatum(pruning.removed);
    });
}

}  // namespace pawl
