// May throw and may ereport: pawl_saga.claim, which claims tasks for a worker and returns what it needs of them.
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

constexpr int most_rounds = 100;  // of a claim whose tasks all fail

constexpr const char* take_lost = "SELECT t.* FROM pawl_saga._take_lost($1, $2, $3, $4) t";

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

namespace {

// Whether it should be repeated: tasks were claimed, and all of them failed.
bool claim_once(FunctionCallInfo fcinfo, const Asked& asked) {
    Tuplestorestate* rows = pg::call([] { return tuplestore_begin_heap(false, false, work_mem); });
    const Queue queue = take_over(asked, rows);
    if (queue.has_reverts) claim_by("revert", asked, rows);
    claim_by("execute", asked, rows);
    const Target tasks = open_tasks();
    return pg::call([&] {
        SPI_connect();
        const Claimed claimed = rows_of(rows, RelationGetDescr(tasks.relation));
        const int returned =
            answer(claimed, *tasks.binding, reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo), Forming::tried);
        const bool again = claimed.n > 0 && returned == 0;
        SPI_finish();
        close_target(tasks);
        tuplestore_end(rows);
        return again;
    });
}

}  // namespace

void claim(FunctionCallInfo fcinfo, const Asked& asked) {
    for (int round = 0; round < most_rounds; ++round)
        if (!claim_once(fcinfo, asked)) return;
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
        answer(claimed, *tasks.binding, pg::materialize(fcinfo, MAT_SRF_USE_EXPECTED_DESC), Forming::tried);
        SPI_finish();
        close_target(tasks);
    });
    return static_cast<Datum>(0);
}

}  // namespace pawl::saga
