// May throw and may ereport: pawl_saga.claim, which claims tasks for a worker and returns what it needs of them.
#include <algorithm>
#include <iterator>

#include "packs/saga/exchange.hpp"
#include "pg/index_look.hpp"
#include "pg/row_trigger.hpp"
#include "pg/spi.hpp"
#include "pg/sqlstate.hpp"

namespace pawl::saga {

namespace {

// Of a queue: whether tasks have lost their workers, others are to be reverted, and whether it is paused. Reverts are
// looked up first: among very many tasks that are to be executed a claim would look for them one by one.
constexpr const char* look_at_queue =
    "SELECT EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.queue = $1 AND t.worker IS NULL "
    "AND (t.state = 'RUNNING' OR t.state = 'REVERTING')), EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.queue = $1 "
    "AND t.due_at IS NULL AND t.state = ANY ('{SUCCESS,FAILURE,REVERT_FAILURE}'::text[])), "
    "EXISTS (SELECT FROM pawl.paused p WHERE p.relation = 'pawl_saga.tasks'::regclass AND p.state_column = 'state' "
    "AND (p.queue IS NULL OR p.queue = $1) AND (p.until IS NULL OR p.until > clock_timestamp()))";

constexpr int most_looked_at = 20;  // entries of an index, before a statement is asked

constexpr const char* take_lost = "SELECT t.* FROM pawl_saga._take_lost($1, $2, $3, $4) t";

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

pg::Table<2> flows = {"pawl_saga", "flows", {"flow_uuid", "definition_uuid"}, {}};
constexpr Oid flows_types[] = {UUIDOID, UUIDOID};
pg::Table<2> given = {"pawl_saga", "parameters", {"definition_uuid", "node"}, {}};
constexpr Oid given_types[] = {UUIDOID, INT4OID};

Relation open_rows(pg::Table<2>& table, const Oid* types) {
    Relation opened =
        table_open(get_relname_relid(table.name, get_namespace_oid(table.schema, false)), AccessShareLock);
    table.find_columns(RelationGetDescr(opened), types);
    return opened;
}

bool has_parameters(const pg_uuid_t& definition, Datum node) {
    Relation table = open_rows(given, given_types);
    ScanKeyData keys[2];
    ScanKeyInit(&keys[0], given.numbers[0], BTEqualStrategyNumber, F_UUID_EQ, UUIDPGetDatum(&definition));
    ScanKeyInit(&keys[1], given.numbers[1], BTEqualStrategyNumber, F_INT4EQ, node);
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

// What each of the tasks is given, and the failures because of which it is reverted.
SPITupleTable* describe_all(const Claimed& claimed, Binding& plans) {
    Parameters parameters = {};
    auto add = [&](Oid type, auto value) {
        auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * claimed.n));
        for (int i = 0; i < claimed.n; ++i) values[i] = value(i);
        parameters.add_column(type, values, claimed.n);
    };
    add(UUIDOID, [&](int i) { return column_of(claimed, i, "flow_uuid").value; });
    add(INT4OID, [&](int i) { return column_of(claimed, i, "node").value; });
    add(BOOLOID, [&](int i) { return BoolGetDatum(is_reverted(claimed, i)); });
    run_planned(plans, describe, claimed.n, parameters);
    return SPI_tuptable;
}

}  // namespace

void answer(const Claimed& claimed, Binding& plans, ReturnSetInfo* result) {
    if (claimed.n == 0) return;
    SPITupleTable* described = are_given_nothing(claimed) ? nullptr : describe_all(claimed, plans);
    const NullableDatum nothing = {DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")), false};
    const NullableDatum null = {static_cast<Datum>(0), true};
    for (int i = 0; i < claimed.n; ++i) {
        auto of = [&](const char* name) { return column_of(claimed, i, name); };
        auto said = [&](int number) {
            if (described == nullptr) return number == 1 ? nothing : null;
            NullableDatum found;
            found.value = SPI_getbinval(described->vals[i], described->tupdesc, number, &found.isnull);
            return found;
        };
        const bool reverts = is_reverted(claimed, i);
        const NullableDatum handler = reverts && !of("revert").isnull ? of("revert") : of("execute");
        const NullableDatum action = {CStringGetTextDatum(reverts ? "revert" : "execute"), false};
        // pawl_saga.report_and_claim has columns of the report behind the key
        const NullableDatum all[] = {of("flow_uuid"), of("node"),  of("name"),        action,
                                     handler,         of("token"), said(1),           of("result"),
                                     of("failure"),   said(2),     of("traceparent"), of("tracestate")};
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
}

namespace {

// Whether the statement would find nothing, which it mostly does.
bool has_nothing_special(const Asked& asked, const Binding& tasks) {
    if (!pg::is_empty(get_relname_relid("paused", get_namespace_oid("pawl", false)))) return false;
    Relation table = table_open(tasks.root, AccessShareLock);
    const Datum queue = PointerGetDatum(asked.queue);
    const bool nothing = pg::look_into(table, "tasks_orphaned", queue, most_looked_at) == pg::Seen::none &&
                         pg::look_into(table, "tasks_to_revert", queue, most_looked_at) == pg::Seen::none;
    table_close(table, AccessShareLock);
    return nothing;
}

}  // namespace

pg::Seen look_for_waiting(const Asked& asked, const Binding& tasks, Rank& first) {
    Relation table = table_open(tasks.root, AccessShareLock);
    TupleTableSlot* row = table_slot_create(table, nullptr);
    const pg::Seen seen =
        pg::look_for_first(table, "tasks_pawl_claim", PointerGetDatum(asked.queue), most_looked_at, row);
    if (seen == pg::Seen::some) {
        auto of = [&](const char* name) {
            bool null;
            return slot_getattr(row, SPI_fnumber(RelationGetDescr(table), name), &null);
        };
        first = {DatumGetInt32(of("priority")), *DatumGetUUIDP(of("flow_uuid")), DatumGetInt32(of("node"))};
    }
    ExecDropSingleTupleTableSlot(row);
    table_close(table, AccessShareLock);
    return seen;
}

Queue look_at(const Asked& asked, Binding& tasks) {
    if (has_nothing_special(asked, tasks)) return {};
    Parameters parameters = {};
    parameters.add(TEXTOID, PointerGetDatum(asked.queue));
    run_planned(tasks, look_at_queue, parameters, Order::sorted);
    return {DatumGetBool(pg::value_of(SPI_tuptable, 0, 1)), DatumGetBool(pg::value_of(SPI_tuptable, 0, 2)),
            DatumGetBool(pg::value_of(SPI_tuptable, 0, 3))};
}

ClaimRequest request_of(const Target& tasks, const char* event, const Asked& asked, int most) {
    ClaimRequest request = {};
    request.target = tasks;
    request.event = pg::call([&] { return cstring_to_text(event); });
    request.processor = asked.processor;
    request.lease = asked.lease;
    request.batch = most;
    request.queue = asked.queue;
    return request;
}

namespace {

// Sees to what lost workers left, and puts the tasks that the worker gets of it into `rows`.
Queue take_over(const Asked& asked, Tuplestorestate* rows) {
    const Target tasks = open_tasks();
    return pg::call([&] {
        SPI_connect();
        const Queue queue = look_at(asked, *tasks.binding);
        if (queue.has_lost) {
            OidFunctionCall2(pg::function_of("pawl_saga", "_record_orphans"), PointerGetDatum(asked.processor),
                             PointerGetDatum(asked.queue));
            Parameters parameters = {};
            parameters.add(TEXTOID, PointerGetDatum(asked.processor));
            parameters.add(TEXTOID, PointerGetDatum(asked.queue));
            parameters.add(INT4OID, Int32GetDatum(asked.batch));
            parameters.add(INTERVALOID, IntervalPGetDatum(asked.lease), asked.lease == nullptr);
            run_planned(*tasks.binding, take_lost, parameters, Order::sorted);
            for (uint64 i = 0; i < SPI_processed; ++i) tuplestore_puttuple(rows, SPI_tuptable->vals[i]);
        }
        SPI_finish();
        close_target(tasks);
        return queue;
    });
}

void claim_by(const char* event, const Asked& asked, Tuplestorestate* rows) {
    const int most = asked.batch - static_cast<int>(tuplestore_tuple_count(rows));
    if (most <= 0) return;
    claim_next(request_of(open_tasks(), event, asked, most), rows);
}

Claimed rows_of(Tuplestorestate* rows, TupleDesc descriptor) {
    const auto n = static_cast<int>(tuplestore_tuple_count(rows));
    Claimed claimed = {descriptor, static_cast<HeapTuple*>(palloc(sizeof(HeapTuple) * Max(n, 1))), 0};
    TupleTableSlot* slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);
    tuplestore_rescan(rows);
    while (tuplestore_gettupleslot(rows, true, false, slot)) claimed.rows[claimed.n++] = ExecCopySlotHeapTuple(slot);
    ExecDropSingleTupleTableSlot(slot);
    return claimed;
}

}  // namespace

Asked asked_of(FunctionCallInfo fcinfo, text* processor, int n) {
    Asked asked = {};
    asked.processor = processor;
    asked.batch = batch_argument(fcinfo, n + 1);
    asked.lease = lease_argument(fcinfo, n + 2);
    if (processor == nullptr || pg::view(processor).empty())
        throw pg::Failure(sqlstate::not_the_owner, "no processor given", {}, "processor => '...'");
    pg::require(fcinfo, n, "queue");
    asked.queue = pg::text_argument(fcinfo, n);
    if (pg::view(asked.queue) == "sql:" && !pg::call([] { return pg::answer_of("pawl_saga", "_runs_sql"); }))
        throw pg::Failure(ERRCODE_INSUFFICIENT_PRIVILEGE, "permission denied to claim from the queue \"sql:\"",
                          "Its tasks are SQL functions; only roles that may run these claim them.",
                          "select * from pawl_saga.run_sql_tasks()");
    return asked;
}

void set_processor(text* processor) {
    set_config_option("pawl.processor", text_to_cstring(processor), PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true,
                      0, false);
}

void claim(FunctionCallInfo fcinfo, const Asked& asked) {
    Tuplestorestate* rows = pg::call([] { return tuplestore_begin_heap(false, false, work_mem); });
    const Queue queue = take_over(asked, rows);
    if (queue.has_reverts) claim_by("revert", asked, rows);
    claim_by("execute", asked, rows);
    const Target tasks = open_tasks();
    pg::call([&] {
        SPI_connect();
        answer(rows_of(rows, RelationGetDescr(tasks.relation)), *tasks.binding,
               reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo));
        SPI_finish();
        close_target(tasks);
        tuplestore_end(rows);
    });
}

// The setting pawl.processor keeps the name until the transaction ends.
PAWL_FUNCTION(pawl_saga_claim) {
    const Asked asked = asked_of(fcinfo, PG_ARGISNULL(0) ? nullptr : pg::text_argument(fcinfo, 0), 1);
    pg::call([&] {
        pg::materialize(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
        set_processor(asked.processor);
    });
    claim(fcinfo, asked);
    return static_cast<Datum>(0);
}

// pawl_saga._as_claimed(tasks)
PAWL_FUNCTION(pawl_saga_as_claimed) {
    const Target tasks = open_tasks();
    pg::call([&] {
        SPI_connect();
        Datum* values;
        bool* nulls;
        Claimed claimed = {RelationGetDescr(tasks.relation), nullptr, 0};
        ArrayType* array = PG_GETARG_ARRAYTYPE_P(0);
        deconstruct_array(array, ARR_ELEMTYPE(array), -1, false, TYPALIGN_DOUBLE, &values, &nulls, &claimed.n);
        claimed.rows = static_cast<HeapTuple*>(palloc(sizeof(HeapTuple) * Max(claimed.n, 1)));
        int kept = 0;
        for (int i = 0; i < claimed.n; ++i) {
            if (nulls[i]) continue;
            HeapTupleHeader row = DatumGetHeapTupleHeader(values[i]);
            HeapTupleData tuple = {};
            tuple.t_len = HeapTupleHeaderGetDatumLength(row);
            tuple.t_data = row;
            claimed.rows[kept++] = heap_copytuple(&tuple);
        }
        claimed.n = kept;
        answer(claimed, *tasks.binding, pg::materialize(fcinfo, MAT_SRF_USE_EXPECTED_DESC));
        SPI_finish();
        close_target(tasks);
    });
    return static_cast<Datum>(0);
}

}  // namespace pawl::saga
