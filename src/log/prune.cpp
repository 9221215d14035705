// May throw and may ereport. pawl._prune, the only function that may DELETE from logs: row by row, or a partition as a
// whole. Functions other than the SQL function own nothing.
#include "log/write_access.hpp"
#include "pg/bridge.hpp"
#include "pg/spi.hpp"

extern "C" {
#include "catalog/pg_authid.h"
#include "partitioning/partdesc.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
}

namespace pawl {

namespace {

constexpr BlockNumber window = 128;     // pages scanned by one statement, at most
constexpr int32 entries_of_page = 64;   // about so many; a statement that finds more than the batch reads in vain
constexpr BlockNumber at_most = 16384;  // pages scanned by one call
constexpr BlockNumber glance = 8;       // pages at the end of a partition, where the newest entries are

// A table of the log: the log itself, or a partition. pawl._prune_plan makes the statements.
struct Part {
    Oid table;
    int64 next_block;
    char* prefixes;
    char* ends;
    char* remove_ends;
    // Their plans, for the pages of one call.
    SPIPlanPtr prefixes_plan;
    SPIPlanPtr ends_plan;
    SPIPlanPtr remove_ends_plan;
    // To empty it as a whole; made by pawl._prune_whole_statements. may_go null: it is not a partition.
    char* looks_old;
    char* may_go;
    char* count_all;
    char* keep_ends;
    bool emptied;  // by an earlier call
};

// What came of emptying a partition as a whole. in_use: a later call empties it.
enum class PartOutcome { has_rest, is_empty, droppable, emptied, in_use };

// One call.
struct Pruning {
    Oid log;
    TimestampTz cutoff;
    bool only_terminal;
    int32 batch;
    Oid record;  // the table of anchors, or the audit
    Part* parts;
    int nparts;
    Part* part;  // the current one
    BlockNumber looked_at;
    int64 removed;
    Oid next_leaf;
    int64 next_block;
    bool more;
    PartOutcome outcome;  // of the current part
    List* emptied;
    List* droppable;
    List* dropped;
};

Datum result(int column, bool* null) {
    return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column, null);
}

// Whether this column of the row that a statement returns is true.
bool ask(const char* statement, int n, Oid* types, Datum* values, int column) {
    pg::run_for_row(statement, n, types, values);
    bool null;
    return DatumGetBool(result(column, &null)) && !null;
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
    part.looks_old = text_of(row, "looks_old", memory);
    part.may_go = text_of(row, "may_go", memory);
    part.count_all = text_of(row, "count_all", memory);
    part.keep_ends = text_of(row, "keep_ends", memory);
    part.emptied = DatumGetBool(value_of(row, "emptied"));
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

// Runs a statement that returns one row, planned once for all pages of a call.
void run_prepared(SPIPlanPtr* plan, const char* statement, int n, Oid* types, Datum* values) {
    if (*plan == nullptr) *plan = SPI_prepare_cursor(statement, n, types, CURSOR_OPT_GENERIC_PLAN);
    const int code = *plan == nullptr ? SPI_result : SPI_execute_plan(*plan, values, nullptr, false, 0);
    if (code != SPI_OK_SELECT || SPI_processed != 1)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not prune: %s", SPI_result_code_string(code)),
                        errdetail("%s", statement)));
}

int64 counted() {
    bool null;
    const int64 n = DatumGetInt64(result(1, &null));
    SPI_freetuptable(SPI_tuptable);
    return n;
}

int64 prune_ends(Part* part, Oid* types, Datum* values) {
    bool null;
    run_prepared(&part->ends_plan, part->ends, 4, types, values);
    Datum found = result(1, &null);
    if (null) return 0;
    Oid array = get_array_type(TIDOID);
    run_prepared(&part->remove_ends_plan, part->remove_ends, 1, &array, &found);
    return counted();
}

// Removes entries of the subjects found on these pages. False: the batch is full. Runs inside SPI.
bool prune_pages(Pruning* pruning, BlockNumber from, BlockNumber to) {
    ItemPointerData first;
    ItemPointerData last;
    ItemPointerSet(&first, from, 0);
    ItemPointerSet(&last, to, 0);
    Oid types[] = {TIDOID, TIDOID, TIMESTAMPTZOID, INT8OID};
    Datum values[] = {PointerGetDatum(&first), PointerGetDatum(&last), TimestampTzGetDatum(pruning->cutoff),
                      Int64GetDatum(pruning->batch - pruning->removed)};
    Part* part = pruning->part;
    run_prepared(&part->prefixes_plan, part->prefixes, 4, types, values);
    pruning->removed += counted();
    values[3] = Int64GetDatum(pruning->batch - pruning->removed);
    if (pruning->removed < pruning->batch) pruning->removed += prune_ends(part, types, values);
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
    SPI_connect();
    auto pages = static_cast<BlockNumber>(Max(1, pruning->batch / entries_of_page));
    while (block < stop) {
        CHECK_FOR_INTERRUPTS();
        const BlockNumber next = Min(stop, block + Min(pages, window));
        const int64 before = pruning->removed;
        if (!prune_pages(pruning, block, next)) break;
        if (pruning->removed - before <= pruning->batch / 8 && pages < window) pages *= 2;  // little to remove here
        block = next;
    }
    SPI_finish();
    pruning->more = block < end;
    pruning->next_leaf = pruning->more ? pruning->part->table : InvalidOid;
    pruning->next_block = pruning->more ? block : 0;
    table_close(table, NoLock);
}

BlockNumber pages_of(Oid table) {
    Relation relation = table_open(table, AccessShareLock);
    const BlockNumber pages = RelationGetNumberOfBlocks(relation);
    table_close(relation, NoLock);
    return pages;
}

void command(const char* text) {
    const int code = SPI_execute(text, false, 0);
    if (code < 0)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not prune: %s", SPI_result_code_string(code)),
                        errdetail("%s", text)));
}

const char* name_of(Oid table) {
    return quote_qualified_identifier(get_namespace_name(get_rel_namespace(table)), get_rel_name(table));
}

// Whether cursors or pending triggers of this session use the table.
bool is_used_here(Oid table) {
    Relation relation = table_open(table, NoLock);
    const bool used = relation->rd_refcnt > 1 || AfterTriggerPendingOnRel(table);
    table_close(relation, NoLock);
    return used;
}

// Locks the table without waiting, until the transaction ends. False: not available.
bool take(Oid table) {
    return ConditionalLockRelationOid(table, AccessExclusiveLock) && !is_used_here(table);
}

// Tries to lock a table repeatedly, without a lock request that would block other sessions.
bool take_when_free(Oid table, int* patience) {
    for (; *patience > 0; --*patience) {
        if (take(table)) return true;
        CHECK_FOR_INTERRUPTS();
        pg_usleep(1000);
    }
    return false;
}

bool may_go(const Part& part, BlockNumber pages, TimestampTz cutoff) {
    ItemPointerData place;
    ItemPointerSet(&place, pages > glance ? pages - glance : 0, 0);
    Oid types[] = {TIMESTAMPTZOID, TIDOID};
    Datum values[] = {TimestampTzGetDatum(cutoff), PointerGetDatum(&place)};
    return ask(part.looks_old, 2, types, values, 1) && ask(part.may_go, 1, types, values, 1);
}

// Empties the locked partition. False: entries have arrived since the check without the lock.
bool empty_locked(const Part& part, TimestampTz cutoff, int64* removed) {
    Oid type = TIMESTAMPTZOID;
    Datum value = TimestampTzGetDatum(cutoff);
    if (!ask(part.count_all, 1, &type, &value, 2)) return false;
    bool null;
    *removed += DatumGetInt64(result(1, &null));
    command(part.keep_ends);
    command(psprintf("TRUNCATE ONLY %s", name_of(part.table)));
    return true;
}

// Empties the current partition, if all its entries are older than the cutoff. Does not wait for locks.
void empty_part(void* argument) {
    auto* pruning = static_cast<Pruning*>(argument);
    const Part& part = *pruning->part;
    SPI_connect();
    const BlockNumber pages = pages_of(part.table);
    if (pages == 0)
        pruning->outcome = part.emptied ? PartOutcome::droppable : PartOutcome::is_empty;
    else if (!may_go(part, pages, pruning->cutoff))
        pruning->outcome = PartOutcome::has_rest;
    else if (take(part.table) && empty_locked(part, pruning->cutoff, &pruning->removed))
        pruning->outcome = PartOutcome::emptied;
    else
        pruning->outcome = PartOutcome::in_use;
    SPI_finish();
}

// Empties the partition as a whole, if possible. Returns whether nothing is left to remove row by row.
bool go_as_a_whole(Pruning* pruning, Oid owner) {
    const Part& part = *pruning->part;
    if (part.may_go == nullptr || part.next_block > 0) return false;
    with_write_access(owner, part.table, pruning->record, empty_part, pruning, Reach::confined);
    if (pruning->outcome == PartOutcome::emptied) pruning->emptied = lappend_oid(pruning->emptied, part.table);
    if (pruning->outcome == PartOutcome::emptied || pruning->outcome == PartOutcome::droppable)
        pruning->droppable = lappend_oid(pruning->droppable, part.table);
    return pruning->outcome != PartOutcome::has_rest;
}

// Whether the table is a range partition directly below the log, and a later one has entries.
bool is_past(Oid table, Oid log, Oid* default_part) {
    Relation root = table_open(log, AccessShareLock);
    bool past = false;
    if (root->rd_rel->relkind == RELKIND_PARTITIONED_TABLE &&
        RelationGetPartitionKey(root)->strategy == PARTITION_STRATEGY_RANGE) {
        PartitionDesc parts = RelationGetPartitionDesc(root, true);
        *default_part = get_default_oid_from_partdesc(parts);
        bool seen = false;
        for (int i = 0; i < parts->nparts && !past; ++i) {  // in the order of the bounds
            if (seen && parts->is_leaf[i] && parts->oids[i] != *default_part) past = pages_of(parts->oids[i]) > 0;
            seen |= parts->oids[i] == table;
        }
        past &= table != *default_part;
    }
    table_close(root, NoLock);
    return past;
}

// Drops an empty partition that later partitions follow, if its locks are available. The log stays locked until the
// transaction ends. *patience: milliseconds left to wait for the lock; decremented.
bool drop_part(Oid table, Oid log, int* patience) {
    Oid default_part = InvalidOid;
    if (!is_past(table, log, &default_part) || !take_when_free(log, patience) ||
        (OidIsValid(default_part) && !take(default_part)) || !take(table))
        return false;
    if (pages_of(table) > 0) return false;
    SPI_connect();
    const char* name = name_of(table);
    command(psprintf("ALTER TABLE %s DETACH PARTITION %s", name_of(log), name));
    command(psprintf("DROP TABLE %s", name));
    SPI_finish();
    return true;
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
        check_may_remove(pruning.log);
        with_rights_of(BOOTSTRAP_SUPERUSERID, plan_log, &pruning);
        prune_parts(&pruning);
        with_rights_of(BOOTSTRAP_SUPERUSERID, remember_place, &pruning);
        return as_row(fcinfo, pruning);
    });
}

}  // namespace pawl
