/* A trigger that appends an entry to a log without gaps, one row at a time, and decides nothing: what such a log takes
 * of PostgreSQL at least. Its argument is the log (variants.py, LOG_COLUMNS); the table's first columns are an integer,
 * the key, and a state of type text. Compiled by bench/run. */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

PG_MODULE_MAGIC;

enum {
    ID,
    KEY,
    SORT_KEY,
    FROM_STATE,
    TO_STATE,
    EVENT,
    PROCESSOR,
    ACTOR,
    CORRELATION_ID,
    METADATA,
    VERSION,
    CREATED_AT,
    COLUMNS
};

/* The number of the newest entry of a key; no other session adds one, because the row is locked. */
static int32 newest(Relation log, Oid index, Datum key) {
    Relation order = index_open(index, AccessShareLock);
    SnapshotData any;
    ScanKeyData wanted;
    HeapTuple found;
    bool missing;
    int32 number = 0;

    InitDirtySnapshot(any);
    ScanKeyInit(&wanted, KEY + 1, BTEqualStrategyNumber, F_INT4EQ, key);
    SysScanDesc scan = systable_beginscan_ordered(log, order, &any, 1, &wanted);
    if (HeapTupleIsValid(found = systable_getnext_ordered(scan, BackwardScanDirection)))
        number = DatumGetInt32(heap_getattr(found, SORT_KEY + 1, RelationGetDescr(log), &missing));
    systable_endscan_ordered(scan);
    index_close(order, NoLock);
    return number;
}

PG_FUNCTION_INFO_V1(append_trigger);

Datum append_trigger(PG_FUNCTION_ARGS) {
    TriggerData* data = (TriggerData*)fcinfo->context;
    TupleDesc row = RelationGetDescr(data->tg_relation);
    Oid relation = RelnameGetRelid(data->tg_trigger->tgargs[0]);
    Relation log = table_open(relation, RowExclusiveLock);
    Oid index = linitial_oid(RelationGetIndexList(log));
    pg_uuid_t id;
    Datum values[COLUMNS] = {0};
    bool nulls[COLUMNS] = {0};
    bool missing;

    if (!pg_strong_random(&id, sizeof id)) elog(ERROR, "no random bytes");
    nulls[PROCESSOR] = nulls[CORRELATION_ID] = nulls[METADATA] = true;
    values[ID] = UUIDPGetDatum(&id);
    values[KEY] = heap_getattr(data->tg_trigtuple, 1, row, &missing);
    values[SORT_KEY] = Int32GetDatum(newest(log, index, values[KEY]) + 1);
    values[FROM_STATE] = heap_getattr(data->tg_trigtuple, 2, row, &missing);
    values[TO_STATE] = heap_getattr(data->tg_newtuple, 2, row, &missing);
    values[EVENT] = CStringGetTextDatum("move_1");
    values[ACTOR] = CStringGetTextDatum("postgres");
    values[VERSION] = Int32GetDatum(1);
    values[CREATED_AT] = TimestampTzGetDatum(GetCurrentTimestamp());
    CatalogTupleInsert(log, heap_form_tuple(RelationGetDescr(log), values, nulls));
    table_close(log, NoLock);
    return PointerGetDatum(NULL);
}
