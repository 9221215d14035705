/* A trigger that does nothing: the floor that every trigger on a row is measured against. Compiled by bench/run, once
 * with SETTINGS: the number of settings that the library defines. */
#include "postgres.h"

#include "commands/trigger.h"
#include "fmgr.h"
#ifdef SETTINGS
#include "utils/guc.h"
#endif

PG_MODULE_MAGIC;

#ifdef SETTINGS
static char* values[SETTINGS];

extern PGDLLEXPORT void _PG_init(void);

void _PG_init(void) {
    for (int i = 0; i < SETTINGS; ++i)
        DefineCustomStringVariable(psprintf("pawl_bench.setting_%d", i), "", "", &values[i], "", PGC_USERSET, 0, NULL,
                                   NULL, NULL);
}
#endif

PG_FUNCTION_INFO_V1(empty_trigger);

Datum empty_trigger(PG_FUNCTION_ARGS) {
    TriggerData* data = (TriggerData*)fcinfo->context;

    if (TRIGGER_FIRED_FOR_STATEMENT(data->tg_event)) return PointerGetDatum(NULL);
    return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple);
}
