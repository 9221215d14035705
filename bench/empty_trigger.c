/* A trigger that does nothing: the floor that every trigger on a row is measured against. Compiled by bench/run. */
#include "postgres.h"

#include "commands/trigger.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(empty_trigger);

Datum empty_trigger(PG_FUNCTION_ARGS) {
    TriggerData* data = (TriggerData*)fcinfo->context;

    if (TRIGGER_FIRED_FOR_STATEMENT(data->tg_event)) return PointerGetDatum(NULL);
    return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple);
}
