// May ereport; owns nothing. See row_query.hpp.
#include "fire/row_query.hpp"

#include "catalog/generated.hpp"
#include "fire/lock_order.hpp"
#include "fire/needed_rights.hpp"
#include "fire/node_context.hpp"
#include "fire/plans.hpp"
#include "pg/spi.hpp"

namespace pawl {

namespace {

KeptPlan*& plan_of(const Target& target, Plan plan) {
    return target.binding->plans[static_cast<int>(plan)];
}

KeptPlan* prepare_to_keep(const Target& target, const char* query, int nparameters, Oid* types) {
    return keep_plan(*target.binding, query, nparameters, types, Order::of_keys);
}

Oid* key_types(const Binding& binding, bool of_arrays, int skip) {
    auto* types = static_cast<Oid*>(palloc(sizeof(Oid) * (binding.nkeys + skip)));
    for (int i = 0; i < binding.nkeys; ++i)
        types[skip + i] = of_arrays ? get_array_type(binding.keys[i].type) : binding.keys[i].type;
    return types;
}

uint64 run(const Target& target, KeptPlan* plan, Datum* values, int expected) {
    const int result = run_kept(plan, *target.binding, values);
    if (result == SPI_OK_REWRITTEN) return 0;  // a rule has put another statement in its place
    if (result != expected)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("internal statement failed: %s", SPI_result_code_string(result))));
    return SPI_processed;
}

// The key at a place of arrays of one key column each.
Datum* key_at(const Binding& binding, const Datum* key_columns, int n) {
    auto* key = static_cast<Datum*>(palloc(sizeof(Datum) * binding.nkeys));
    for (int i = 0; i < binding.nkeys; ++i) {
        int16 length;
        bool by_value, null;
        char alignment;
        get_typlenbyvalalign(binding.keys[i].type, &length, &by_value, &alignment);
        int index = n + 1;
        key[i] = array_get_element(key_columns[i], 1, &index, -1, length, by_value, alignment, &null);
        if (null)
            ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                            errmsg("key of table \"%s\" must not be null", get_rel_name(binding.root))));
    }
    return key;
}

bool same_key(const Binding& binding, const Datum* one, const Datum* other) {
    for (int i = 0; i < binding.nkeys; ++i)
        if (!same_key_value(binding.keys[i], one[i], other[i])) return false;
    return true;
}

// A statement that names one key is run on the node of its row, and a statement of many keys cannot lock rows.
void find_rows_one_by_one(const Target& target, const Datum* key_columns, int n, FoundRow* found) {
    auto** keys = static_cast<Datum**>(palloc(sizeof(Datum*) * Max(n, 1)));
    for (int i = 0; i < n; ++i) {
        keys[i] = key_at(*target.binding, key_columns, i);
        for (int j = 0; j < i && found[i].same_as < 0; ++j)
            if (found[j].same_as < 0 && same_key(*target.binding, keys[i], keys[j])) found[i].same_as = j;
        const int same_as = found[i].same_as;
        found[i] = same_as < 0 ? find_row(target, keys[i], true) : found[same_as];
        found[i].same_as = same_as;
    }
}

}  // namespace

const char* whole_row(const Target& target) {
    return psprintf("%s.*::%s", row_alias, target.table);
}

HeapTuple composite_as_tuple(Datum composite) {
    HeapTupleHeader header = DatumGetHeapTupleHeader(composite);
    HeapTupleData tuple;
    tuple.t_len = HeapTupleHeaderGetDatumLength(header);
    ItemPointerSetInvalid(&tuple.t_self);
    tuple.t_tableOid = InvalidOid;
    tuple.t_data = header;
    return heap_copytuple(&tuple);
}

char* unnested_keys(const Binding& binding, int first_parameter, int states_parameter) {
    StringInfoData list;
    initStringInfo(&list);
    appendStringInfoString(&list, "ROWS FROM (");
    for (int i = 0; i < binding.nkeys; ++i)
        appendStringInfo(&list, "%spg_catalog.unnest($%d)", i > 0 ? ", " : "", first_parameter + i);
    if (states_parameter > 0) appendStringInfo(&list, ", pg_catalog.unnest($%d)", states_parameter);
    appendStringInfoString(&list, ") WITH ORDINALITY AS k(");
    for (int i = 0; i < binding.nkeys; ++i) appendStringInfo(&list, "k%d, ", i);
    if (states_parameter > 0) appendStringInfoString(&list, "to_state, ");
    appendStringInfoString(&list, "n)");
    return list.data;
}

char* single_key(const Binding& binding, int first_parameter) {
    StringInfoData row;
    initStringInfo(&row);
    appendStringInfoString(&row, "(SELECT ");
    for (int i = 0; i < binding.nkeys; ++i) appendStringInfo(&row, "$%d AS k%d, ", first_parameter + i, i);
    appendStringInfoString(&row, "1::pg_catalog.int8 AS n) AS k");
    return row.data;
}

char* key_join(const Binding& binding) {
    StringInfoData condition;
    initStringInfo(&condition);
    for (int i = 0; i < binding.nkeys; ++i)
        appendStringInfo(&condition, "%s%s", i > 0 ? " AND " : "",
                         same_values(binding.keys[i].type,
                                     psprintf("%s.%s", row_alias, quote_identifier(NameStr(binding.keys[i].name))),
                                     psprintf("k.k%d", i)));
    return condition.data;
}

char* key_order(const Binding& binding) {
    StringInfoData order;
    initStringInfo(&order);
    for (int i = 0; i < binding.nkeys; ++i)
        appendStringInfo(&order, "%s%s.%s", i > 0 ? ", " : "", row_alias,
                         quote_identifier(NameStr(binding.keys[i].name)));
    return order.data;
}

FoundRow row_from(const Target& target, HeapTuple tuple) {
    const Binding& binding = *target.binding;
    FoundRow row = {};
    row.same_as = -1;
    row.tuple = tuple;
    row.slot = MakeSingleTupleTableSlot(binding.row_descriptor, &TTSOpsHeapTuple);
    ExecStoreHeapTuple(row.tuple, row.slot, false);
    bool null;
    Datum state = slot_getattr(row.slot, binding.state, &null);
    row.state = decode_state(binding, state, null);
    row.state_text = state_as_text(binding, state, null);
    return row;
}

FoundRow find_row(const Target& target, const Datum* key, bool lock) {
    const Binding& binding = *target.binding;
    Datum* values = const_cast<Datum*>(key);
    char* query = psprintf("SELECT %s FROM %s AS %s WHERE %s%s", whole_row(target), target.table, row_alias,
                           key_condition(binding, row_alias, 1), lock ? " FOR NO KEY UPDATE" : "");
    lock ? require_lock(target) : require_select(target);
    if (lock) {
        lock_before_row(target, key);
        KeptPlan*& plan = plan_of(target, Plan::find);
        if (plan == nullptr) plan = prepare_to_keep(target, query, binding.nkeys, key_types(binding, false, 0));
        run(target, plan, values, SPI_OK_SELECT);
    } else {
        SPIPlanPtr plan = pg::prepare(query, binding.nkeys, key_types(binding, false, 0));
        if (SPI_execute_plan(plan, values, nullptr, true, 0) != SPI_OK_SELECT)
            ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not read a row")));
    }
    if (SPI_processed == 0) return {};
    bool null;
    return row_from(target, composite_as_tuple(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &null)));
}

void find_rows(const Target& target, const Datum* key_columns, int n, FoundRow* found) {
    const Binding& binding = *target.binding;
    memset(found, 0, sizeof(FoundRow) * n);
    for (int i = 0; i < n; ++i) found[i].same_as = -1;
    require_lock(target);
    if (binding.distributed) return find_rows_one_by_one(target, key_columns, n, found);
    lock_before_keys(target, key_columns);
    KeptPlan*& plan = plan_of(target, Plan::find_many);
    if (plan == nullptr)
        plan = prepare_to_keep(target,
                               psprintf("SELECT k.n, %s, %s.tableoid, %s.ctid FROM %s JOIN %s AS %s ON %s ORDER BY %s, "
                                        "k.n FOR NO KEY UPDATE OF %s",
                                        whole_row(target), row_alias, row_alias, unnested_keys(binding, 1),
                                        target.table, row_alias, key_join(binding), key_order(binding), row_alias),
                               binding.nkeys, key_types(binding, true, 0));
    run(target, plan, const_cast<Datum*>(key_columns), SPI_OK_SELECT);
    Oid last_table = InvalidOid;
    ItemPointerData last_place;
    int last = -1;
    for (uint64 i = 0; i < SPI_processed; ++i) {
        bool null;
        HeapTuple tuple = SPI_tuptable->vals[i];
        TupleDesc columns = SPI_tuptable->tupdesc;
        const int ordinal = static_cast<int>(DatumGetInt64(SPI_getbinval(tuple, columns, 1, &null))) - 1;
        found[ordinal] = row_from(target, composite_as_tuple(SPI_getbinval(tuple, columns, 2, &null)));
        const Oid table = DatumGetObjectId(SPI_getbinval(tuple, columns, 3, &null));
        auto* place = reinterpret_cast<ItemPointer>(DatumGetPointer(SPI_getbinval(tuple, columns, 4, &null)));
        if (last >= 0 && table == last_table && ItemPointerEquals(place, &last_place)) {
            found[ordinal].same_as = last;
        } else {
            last = ordinal;
            last_table = table;
            last_place = *place;
        }
    }
}

uint64 move_row(const Target& target, const Datum* key, text* state) {
    const Binding& binding = *target.binding;
    require_update(target, binding.state);
    KeptPlan*& plan = plan_of(target, Plan::move);
    if (plan == nullptr) {
        Oid* types = key_types(binding, false, 1);
        types[0] = state_parameter_type(binding);
        plan = prepare_to_keep(target,
                               psprintf("UPDATE %s AS %s SET %s = %s WHERE %s", target.table, row_alias,
                                        quote_identifier(NameStr(binding.column)), state_value(target, "$1"),
                                        key_condition(binding, row_alias, 2)),
                               binding.nkeys + 1, types);
    }
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * (binding.nkeys + 1)));
    values[0] = state_parameter(binding, state);
    memcpy(values + 1, key, sizeof(Datum) * binding.nkeys);
    if (!binding.distributed) return run(target, plan, values, SPI_OK_UPDATE);
    send_context(innermost_intent());
    const uint64 moved = run(target, plan, values, SPI_OK_UPDATE);
    send_former_context();
    return moved;
}

void move_rows(const Target& target, const Datum* key_columns, text* state, bool* moved) {
    const Binding& binding = *target.binding;
    require_update(target, binding.state);
    if (binding.distributed) {
        const int n =
            ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(key_columns[0])), ARR_DIMS(DatumGetArrayTypeP(key_columns[0])));
        for (int i = 0; i < n; ++i) moved[i] = move_row(target, key_at(binding, key_columns, i), state) > 0;
        return;
    }
    KeptPlan*& plan = plan_of(target, Plan::move_many);
    if (plan == nullptr) {
        Oid* types = key_types(binding, true, 1);
        types[0] = state_parameter_type(binding);
        plan = prepare_to_keep(target,
                               psprintf("UPDATE %s AS %s SET %s = %s FROM %s WHERE %s RETURNING k.n", target.table,
                                        row_alias, quote_identifier(NameStr(binding.column)), state_value(target, "$1"),
                                        unnested_keys(binding, 2), key_join(binding)),
                               binding.nkeys + 1, types);
    }
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * (binding.nkeys + 1)));
    values[0] = state_parameter(binding, state);
    memcpy(values + 1, key_columns, sizeof(Datum) * binding.nkeys);
    run(target, plan, values, SPI_OK_UPDATE_RETURNING);
    for (uint64 i = 0; i < SPI_processed; ++i) {
        bool null;
        moved[DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &null)) - 1] = true;
    }
}

HeapTuple with_state(const Target& target, HeapTuple row, text* state) {
    const Binding& binding = *target.binding;
    const FormData_pg_attribute* column = TupleDescAttr(RelationGetDescr(target.relation), binding.state - 1);
    Oid input, parameter;
    getTypeInputInfo(column->atttypid, &input, &parameter);
    Datum value = OidInputFunctionCall(input, text_to_cstring(state), parameter, column->atttypmod);
    int attribute = binding.state;
    bool null = false;
    HeapTuple moved = heap_modify_tuple_by_cols(row, binding.row_descriptor, 1, &attribute, &value, &null);
    return has_generated_columns(target.relation) ? with_generated_columns(target.relation, moved) : moved;
}

}  // namespace pawl
