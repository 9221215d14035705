// May throw and may ereport: what a worker is told of the tasks that it has claimed.
#include <algorithm>
#include <iterator>

#include "packs/saga/exchange.hpp"
#include "pg/index_look.hpp"
#include "pg/row_trigger.hpp"
#include "pg/spi.hpp"
#include "work/trial.hpp"

extern "C" {
#include "access/detoast.h"
}

namespace pawl::saga {

namespace {

// Parameters: flows, nodes, and which of them are to be reverted.
#define DESCRIBE                                                                                                     \
    "SELECT CASE WHEN EXISTS (SELECT FROM pawl_saga.parameters p WHERE p.definition_uuid = "                         \
    "(SELECT f.definition_uuid FROM pawl_saga.flows f WHERE f.flow_uuid = r.flow) AND p.node = r.node) "             \
    "THEN pawl_saga.arguments(r.flow, r.node) ELSE '{}' END, CASE WHEN r.reverting THEN pawl_saga.failures(r.flow) " \
    "END "
constexpr RowsStatement describe = {DESCRIBE
                                    "FROM unnest($1, $2, $3) WITH ORDINALITY r(flow, node, reverting, n) ORDER BY r.n",
                                    DESCRIBE "FROM (SELECT $1, $2, $3) r(flow, node, reverting)"};
#undef DESCRIBE

// The same task by task: those that can be returned, by their place.
#define GIVE_APART(flows, nodes) \
    "SELECT g.n, g.arguments, g.failures FROM pawl_saga._give_apart(" flows ", " nodes ") g"
constexpr RowsStatement give_apart = {GIVE_APART("$1", "$2"), GIVE_APART("ARRAY[$1]", "ARRAY[$2]")};
#undef GIVE_APART

constexpr Size most_formed_at_once = 64 * 1024 * 1024;  // bytes of a task's input

pg::Table<2> flows = {"pawl_saga", "flows", {"flow_uuid", "definition_uuid"}, {}};
constexpr Oid flows_types[] = {UUIDOID, UUIDOID};
pg::Table<2> given_parameters = {"pawl_saga", "parameters", {"definition_uuid", "node"}, {}};
constexpr Oid given_parameters_types[] = {UUIDOID, INT4OID};

Relation open_rows(pg::Table<2>& table, const Oid* types) {
    Relation opened =
        table_open(get_relname_relid(table.name, get_namespace_oid(table.schema, false)), AccessShareLock);
    table.find_columns(RelationGetDescr(opened), types);
    return opened;
}

bool has_parameters(const pg_uuid_t& definition, Datum node) {
    Relation table = open_rows(given_parameters, given_parameters_types);
    ScanKeyData keys[2];
    ScanKeyInit(&keys[0], given_parameters.numbers[0], BTEqualStrategyNumber, F_UUID_EQ, UUIDPGetDatum(&definition));
    ScanKeyInit(&keys[1], given_parameters.numbers[1], BTEqualStrategyNumber, F_INT4EQ, node);
    bool found = false;
    pg::visit_matches(table, "parameters_pkey", keys, 2, GetTransactionSnapshot(), [&](HeapTuple) {
        found = true;
        return false;
    });
    table_close(table, AccessShareLock);
    return found;
}

// False if its flow is not found.
bool has_no_parameters(Datum flow, Datum node) {
    Relation table = open_rows(flows, flows_types);
    ScanKeyData key;
    ScanKeyInit(&key, flows.numbers[0], BTEqualStrategyNumber, F_UUID_EQ, flow);
    bool none = false;
    pg::visit_matches(table, "flows_pkey", &key, 1, GetTransactionSnapshot(), [&](HeapTuple row) {
        bool null;
        const Datum definition = heap_getattr(row, flows.numbers[1], RelationGetDescr(table), &null);
        none = !null && !has_parameters(*DatumGetUUIDP(definition), node);
        return false;
    });
    table_close(table, AccessShareLock);
    return none;
}

// A column of a claimed task.
NullableDatum column_of(const Claimed& claimed, int row, const char* name) {
    const int number = SPI_fnumber(claimed.descriptor, name);
    if (number <= 0)
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_COLUMN), errmsg("column \"%s\" of table \"tasks\" does not exist", name)));
    NullableDatum found;
    found.value = heap_getattr(claimed.rows[row], number, claimed.descriptor, &found.isnull);
    return found;
}

bool is_reverted(const Claimed& claimed, int row) {
    return pg::view(DatumGetTextPP(column_of(claimed, row, "state").value)) != "RUNNING";
}

// Whether each of the tasks is to be executed, and is given nothing.
bool are_given_nothing(const Claimed& claimed) {
    for (int i = 0; i < claimed.n; ++i)
        if (is_reverted(claimed, i) ||
            !has_no_parameters(column_of(claimed, i, "flow_uuid").value, column_of(claimed, i, "node").value))
            return false;
    return true;
}

// What a task is given, and the failures because of which it is reverted.
struct Given {
    NullableDatum arguments;
    NullableDatum failures;
    bool is_formed;
};

Given* given_nothing(int n) {
    auto* given = static_cast<Given*>(palloc0(sizeof(Given) * n));
    const NullableDatum none = {DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")), false};
    for (int i = 0; i < n; ++i) given[i] = {none, {static_cast<Datum>(0), true}, true};
    return given;
}

NullableDatum found(int row, int number) {
    NullableDatum value;
    value.value = SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, number, &value.isnull);
    return value;
}

template <typename Value>
void add_column(Parameters& parameters, Oid type, const Claimed& claimed, Value value) {
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * claimed.n));
    for (int i = 0; i < claimed.n; ++i) values[i] = value(i);
    parameters.add_column(type, values, claimed.n);
}

void add_keys(Parameters& parameters, const Claimed& claimed) {
    add_column(parameters, UUIDOID, claimed, [&](int i) { return column_of(claimed, i, "flow_uuid").value; });
    add_column(parameters, INT4OID, claimed, [&](int i) { return column_of(claimed, i, "node").value; });
}

// Input up to this size is certain to fit into one row, and into one JSON value.
void check_size(const Claimed& claimed, int row, const Given& given) {
    Size size = 0;
    for (const NullableDatum& part :
         {given.arguments, given.failures, column_of(claimed, row, "result"), column_of(claimed, row, "failure")})
        if (!part.isnull) size += toast_raw_datum_size(part.value);
    if (size > most_formed_at_once)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("the input of a task is too large")));
}

Given* form_at_once(const Claimed& claimed, Binding& plans) {
    Parameters parameters = {};
    add_keys(parameters, claimed);
    add_column(parameters, BOOLOID, claimed, [&](int i) { return BoolGetDatum(is_reverted(claimed, i)); });
    run_planned(plans, describe, claimed.n, parameters);
    auto* given = static_cast<Given*>(palloc0(sizeof(Given) * claimed.n));
    for (int i = 0; i < claimed.n; ++i) {
        given[i] = {found(i, 1), found(i, 2), true};
        check_size(claimed, i, given[i]);
    }
    return given;
}

// A task whose input cannot be formed fails, and is not returned.
Given* form_apart(const Claimed& claimed, Binding& plans) {
    Parameters parameters = {};
    add_keys(parameters, claimed);
    const int n = static_cast<int>(run_planned(plans, give_apart, claimed.n, parameters));
    auto* given = static_cast<Given*>(palloc0(sizeof(Given) * claimed.n));
    for (int i = 0; i < n; ++i) given[DatumGetInt64(found(i, 1).value) - 1] = {found(i, 2), found(i, 3), true};
    return given;
}

Given* form(const Claimed& claimed, Binding& plans, Forming forming) {
    if (are_given_nothing(claimed)) return given_nothing(claimed.n);
    if (forming == Forming::at_once) return form_at_once(claimed, plans);
    Given* given = nullptr;
    if (try_alone([&] { given = form_at_once(claimed, plans); }) == nullptr) return given;
    return form_apart(claimed, plans);
}

void put(const Claimed& claimed, int row, const Given& given, ReturnSetInfo* result) {
    auto of = [&](const char* name) { return column_of(claimed, row, name); };
    const bool reverts = is_reverted(claimed, row);
    const NullableDatum handler = reverts && !of("revert").isnull ? of("revert") : of("execute");
    const NullableDatum action = {CStringGetTextDatum(reverts ? "revert" : "execute"), false};
    // pawl_saga.report_and_claim has columns of the report behind the key
    const NullableDatum all[] = {of("flow_uuid"), of("node"),     of("name"),        action,
                                 handler,         of("token"),    given.arguments,   of("result"),
                                 of("failure"),   given.failures, of("traceparent"), of("tracestate")};
    constexpr std::size_t key = 2;
    constexpr std::size_t most_between = 3;
    const std::size_t between = static_cast<std::size_t>(result->setDesc->natts) - lengthof(all);
    Datum values[lengthof(all) + most_between] = {};
    bool nulls[lengthof(all) + most_between];
    std::fill(std::begin(nulls), std::end(nulls), true);
    for (std::size_t k = 0; k < lengthof(all); ++k) {
        values[k < key ? k : k + between] = all[k].value;
        nulls[k < key ? k : k + between] = all[k].isnull;
    }
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

}  // namespace

int answer(const Claimed& claimed, Binding& plans, ReturnSetInfo* result, Forming forming) {
    if (claimed.n == 0) return 0;
    const Given* given = form(claimed, plans, forming);
    int returned = 0;
    for (int i = 0; i < claimed.n; ++i) {
        if (!given[i].is_formed) continue;
        put(claimed, i, given[i], result);
        ++returned;
    }
    return returned;
}

}  // namespace pawl::saga
