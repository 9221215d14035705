// May ereport; owns nothing. See insert_rows.hpp.
#include "guard/insert_rows.hpp"

#include "catalog/catalog.hpp"
#include "session/context.hpp"

namespace pawl {

namespace {

bool fires(const Trigger& trigger) {
    return TRIGGER_FOR_INSERT(trigger.tgtype) && TRIGGER_FOR_ROW(trigger.tgtype) &&
           trigger.tgenabled != TRIGGER_DISABLED && trigger.tgenabled != TRIGGER_FIRES_ON_REPLICA;
}

}  // namespace

bool fires_insert_triggers(Relation table) {
    if (is_restoring() || SessionReplicationRole != SESSION_REPLICATION_ROLE_ORIGIN || table->trigdesc == nullptr)
        return false;
    const Oid validate = own_trigger_function("validate_insert");
    const Oid record = own_trigger_function("record");
    bool validates = false;
    bool records = false;
    for (int i = 0; i < table->trigdesc->numtriggers; ++i) {
        const Trigger& trigger = table->trigdesc->triggers[i];
        if (!fires(trigger)) continue;
        validates |= trigger.tgfoid == validate;
        records |= trigger.tgfoid == record;
    }
    return validates && records;
}

HeapTuple with_managed_columns(Member* member, Relation table, const Row& row, bool* nulls) {
    if (!member->manages_columns) return row.tuple;
    ColumnChanges changes = {};
    set_columns_of_new(member, row, &changes);
    if (changes.n == 0) return row.tuple;
    for (int i = 0; i < changes.n; ++i) nulls[changes.columns[i] - 1] = changes.nulls[i];
    return heap_modify_tuple_by_cols(row.tuple, RelationGetDescr(table), changes.n, changes.columns, changes.values,
                                     changes.nulls);
}

}  // namespace pawl
