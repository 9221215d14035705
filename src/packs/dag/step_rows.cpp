// May throw and may ereport: the columns of a workflow step that describe the state it enters. Every claim runs this,
// hence it is not PL/pgSQL.
#include "pg/arguments.hpp"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
}

namespace pawl {

namespace {

// Ereports.
bool is_text(HeapTuple row, TupleDesc descriptor, const char* column, std::string_view expected) {
    bool null;
    const Datum value = SPI_getbinval(row, descriptor, SPI_fnumber(descriptor, column), &null);
    return !null && pg::view(DatumGetTextPP(value)) == expected;
}

// The schema is the extension's, so that no other table is called pawl_dag.steps. Ereports.
bool is_steps(Relation relation) {
    const Oid schema = get_namespace_oid("pawl_dag", true);
    if (!OidIsValid(schema)) return false;
    const Oid steps = get_relname_relid("steps", schema);
    return RelationGetRelid(relation) == steps ||
           (relation->rd_rel->relispartition &&
            list_member_oid(get_partition_ancestors(RelationGetRelid(relation)), steps));
}

struct Changes {
    int n = 0;
    int columns[3];
    Datum values[3];
    bool nulls[3];

    void set(TupleDesc descriptor, const char* column, Datum value, bool null = false) {
        columns[n] = SPI_fnumber(descriptor, column);
        values[n] = value;
        nulls[n++] = null;
    }
};

// The row with the columns of the state that it enters.
HeapTuple entered(const TriggerData& trigger) {
    TupleDesc descriptor = RelationGetDescr(trigger.tg_relation);
    HeapTuple row = trigger.tg_newtuple;
    Changes changes;
    if (is_text(row, descriptor, "state", "in_progress")) {
        changes.set(descriptor, "last_attempted_at", TimestampTzGetDatum(GetCurrentTimestamp()));
        changes.set(descriptor, "permanent", BoolGetDatum(false));
        changes.set(descriptor, "backoff_request", static_cast<Datum>(0), true);
    } else if (is_text(row, descriptor, "state", "enqueued_as_error_for_orchestration") ||
               heap_attisnull(row, SPI_fnumber(descriptor, "last_failure_at"), descriptor)) {
        changes.set(descriptor, "last_failure_at", TimestampTzGetDatum(GetCurrentTimestamp()));
    }
    if (changes.n == 0) return row;
    return heap_modify_tuple_by_cols(row, descriptor, changes.n, changes.columns, changes.values, changes.nulls);
}

}  // namespace

PAWL_FUNCTION(pawl_dag_step_entered) {
    const auto* trigger = CALLED_AS_TRIGGER(fcinfo) ? reinterpret_cast<const TriggerData*>(fcinfo->context) : nullptr;
    if (trigger == nullptr || !TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) || !TRIGGER_FIRED_BEFORE(trigger->tg_event) ||
        !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                          "step_entered is a trigger BEFORE UPDATE FOR EACH ROW");
    if (!pg::call([&] { return is_steps(trigger->tg_relation); }))
        throw pg::Failure(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                          "this trigger function cannot be used on table \"" +
                              std::string(RelationGetRelationName(trigger->tg_relation)) + "\"",
                          "It is fired by pawl_dag.steps only.", "Drop the trigger.");
    return pg::call([&] { return PointerGetDatum(entered(*trigger)); });
}

}  // namespace pawl
