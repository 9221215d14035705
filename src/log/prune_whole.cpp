// May ereport; owns nothing. See prune_whole.hpp.
#include "log/prune_whole.hpp"

#include "pg/spi.hpp"

extern "C" {
#include "partitioning/partdesc.h"
#include "storage/bufmgr.h"
}

namespace pawl {

namespace {

constexpr BlockNumber glance = 8;  // pages at the end of a partition, where the newest entries are

BlockNumber pages_of(Oid table) {
    Relation relation = table_open(table, AccessShareLock);
    const BlockNumber pages = RelationGetNumberOfBlocks(relation);
    table_close(relation, NoLock);
    return pages;
}

bool ask(const char* statement, int n, Oid* types, Datum* values, int column) {
    const int code = SPI_execute_with_args(statement, n, types, values, nullptr, false, 0);
    if (code != SPI_OK_SELECT || SPI_processed != 1)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not prune: %s", SPI_result_code_string(code)),
                        errdetail("%s", statement)));
    bool null;
    return DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column, &null)) && !null;
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

bool may_go(const WholePart& part, BlockNumber pages, TimestampTz cutoff) {
    ItemPointerData place;
    ItemPointerSet(&place, pages > glance ? pages - glance : 0, 0);
    Oid types[] = {TIMESTAMPTZOID, TIDOID};
    Datum values[] = {TimestampTzGetDatum(cutoff), PointerGetDatum(&place)};
    return ask(part.looks_old, 2, types, values, 1) && ask(part.may_go, 1, types, values, 1);
}

// Empties the locked partition. False: entries have arrived since the check without the lock.
bool empty_locked(const WholePart& part, TimestampTz cutoff, int64* removed) {
    Oid type = TIMESTAMPTZOID;
    Datum value = TimestampTzGetDatum(cutoff);
    if (!ask(part.count_all, 1, &type, &value, 2)) return false;
    bool null;
    *removed = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &null));
    command(part.keep_ends);
    command(psprintf("TRUNCATE ONLY %s", name_of(part.table)));
    return true;
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

}  // namespace

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

WholeResult empty_part(const WholePart& part, TimestampTz cutoff) {
    WholeResult result = {};
    SPI_connect();
    const BlockNumber pages = pages_of(part.table);
    if (pages == 0) {
        result.done = true;
        result.droppable = part.emptied;
    } else if (may_go(part, pages, cutoff)) {
        result.done = true;  // if the partition is in use, a later call empties it
        result.emptied = take(part.table) && empty_locked(part, cutoff, &result.removed);
        result.droppable = result.emptied;
    }
    SPI_finish();
    return result;
}

}  // namespace pawl
