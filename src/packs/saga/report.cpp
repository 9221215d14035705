// May throw and may ereport: pawl_saga.report, which records what workers say of their tasks.
#include <algorithm>

#include "core/transient.hpp"
#include "packs/saga/exchange.hpp"
#include "packs/saga/flows.hpp"
#include "pg/spi.hpp"
#include "pg/sqlstate.hpp"
#include "work/trial.hpp"

namespace pawl::saga {

namespace {

// Parameters: flows, nodes, tokens and outcomes of tasks, the worker, and the time of the report. Only tasks that the
// worker has are written. What makes a task its own stands in a CASE: as a condition it would imply that of the index
// of leases, which seems the smallest where no task is leased when statistics are made.
#define RECORD(state, columns, source)                                                                            \
    "UPDATE pawl_saga.tasks t SET state = " state ", " columns " FROM " source                                    \
    " r(flow, node, token, said) "                                                                                \
    "WHERE t.flow_uuid = r.flow AND t.node = r.node AND CASE WHEN t.state = 'REVERTING' OR (t.state = 'RUNNING' " \
    "AND r.said IS NOT NULL) THEN t.token = r.token AND t.worker = $5 AND (t.lease_until <= $6) IS NOT TRUE "     \
    "ELSE false END RETURNING t.flow_uuid, t.node, t.state"
#define MANY "unnest($1, $2, $3, $4)"
#define ONE "(SELECT $1, $2, $3, $4)"
#define RESULTS(source)                                                                        \
    RECORD("CASE t.state WHEN 'RUNNING' THEN 'SUCCESS' ELSE 'REVERTED' END",                   \
           "result = CASE t.state WHEN 'RUNNING' THEN r.said ELSE t.result END, "              \
           "revert_result = CASE t.state WHEN 'RUNNING' THEN t.revert_result ELSE r.said END", \
           source)
#define FAILURES(source)                                                                         \
    RECORD("CASE t.state WHEN 'RUNNING' THEN 'FAILURE' ELSE 'REVERT_FAILURE' END",               \
           "failure = CASE t.state WHEN 'RUNNING' THEN r.said ELSE t.failure END, "              \
           "revert_failure = CASE t.state WHEN 'RUNNING' THEN t.revert_failure ELSE r.said END", \
           source)
constexpr RowsStatement record_results = {RESULTS(MANY), RESULTS(ONE)};
constexpr RowsStatement record_failures = {FAILURES(MANY), FAILURES(ONE)};
#undef FAILURES
#undef RESULTS
#undef ONE
#undef MANY
#undef RECORD

constexpr const char* lock_tasks =
    "SELECT FROM unnest($1, $2) r(flow, node) CROSS JOIN LATERAL (SELECT FROM pawl_saga.tasks t "
    "WHERE t.flow_uuid = r.flow AND t.node = r.node FOR NO KEY UPDATE) l";

// With whether each outcome is a failure as a seventh parameter.
#define VERDICTS(flows, nodes, tokens, outcomes, failed)                                                  \
    "SELECT v.n, v.state, v.problem FROM pawl_saga._verdicts(" flows ", " nodes ", " tokens ", " outcomes \
    ", $5, $6, " failed ") v"
constexpr RowsStatement find_verdicts = {VERDICTS("$1", "$2", "$3", "$4", "$7"),
                                         VERDICTS("ARRAY[$1]", "ARRAY[$2]", "ARRAY[$3]", "ARRAY[$4]", "ARRAY[$7]")};
#undef VERDICTS

#define APART(function) "SELECT r.flow_uuid, r.node, r.ok, r.state, r.problem FROM pawl_saga." function "($1, $2) r"
constexpr const char* record_flows = APART("_report_flows");
constexpr const char* record_tasks = APART("_report_apart");
#undef APART

constexpr int answer_columns = 5;
constexpr int most_columns = 15;  // of pawl_saga.report_and_claim

// The other columns are null.
void put_answer(ReturnSetInfo* result, const Datum* answered, const bool* nulls_answered) {
    Datum values[most_columns] = {};
    bool nulls[most_columns];
    std::fill(nulls, nulls + most_columns, true);
    std::copy(answered, answered + answer_columns, values);
    std::copy(nulls_answered, nulls_answered + answer_columns, nulls);
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

// Some elements, for different tasks.
struct Part {
    Element** items;
    int n;
};

// Records the sound elements of a report. Ereports; runs inside SPI.
class Recording {
public:
    Recording(Binding& tasks, text* worker, Intent& intent) : tasks_(tasks), worker_(worker), intent_(intent) {}

    static Flows lock_flows(Binding& tasks, const Elements& elements) {
        Datum* keys = values({elements.by_task, elements.sound},
                             [](const Element& element) { return UUIDPGetDatum(&element.flow); });
        return read_flows(keys, elements.sound, Rows::locked, tasks);
    }

    // Of several elements for one task each is checked after the one before it.
    void record(const Elements& elements) {
        Part part = {static_cast<Element**>(palloc(sizeof(Element*) * Max(elements.sound, 1))), 0};
        int turn = 0;
        do {
            part.n = 0;
            for (int i = 0; i < elements.sound; ++i)
                if (elements.by_task[i]->turn == turn) part.items[part.n++] = elements.by_task[i];
            if (part.n > 0) record(part);
            ++turn;
        } while (part.n > 0);
    }

private:
    // Results at once, and each failure alone, because a decision follows from it: in the order of the report.
    void record(const Part& part) {
        Part results = {static_cast<Element**>(palloc(sizeof(Element*) * part.n)), 0};
        for (int i = 0; i < part.n; ++i)
            if (!part.items[i]->failed) results.items[results.n++] = part.items[i];
        Part failures = {static_cast<Element**>(palloc(sizeof(Element*) * part.n)), 0};
        for (int i = 0; i < part.n; ++i)
            if (part.items[i]->failed) failures.items[failures.n++] = part.items[i];
        if (part.n > 1 && failures.n > 0) lock(part);
        std::sort(failures.items, failures.items + failures.n);
        bool recorded = results.n == 0;
        const Element* first_result = recorded ? nullptr : *std::min_element(results.items, results.items + results.n);
        for (int i = 0; i < failures.n; ++i) {
            if (!recorded && first_result < failures.items[i]) {
                write(record_results, results);
                recorded = true;
            }
            write(record_failures, {failures.items + i, 1});
        }
        if (!recorded) write(record_results, results);
        look_at(part);
    }

    void lock(const Part& part) {
        Parameters parameters = {};
        add_keys(part, parameters);
        run_planned(tasks_, lock_tasks, parameters, Order::sorted);
    }

    void write(const RowsStatement& statement, const Part& part) {
        Parameters parameters = {};
        add_outcomes(part, parameters);
        const int n = static_cast<int>(run_planned(tasks_, statement, part.n, parameters));
        SPITupleTable* written = SPI_tuptable;
        for (int i = 0; i < n; ++i) {
            Element* element =
                find(part, *DatumGetUUIDP(pg::value_of(written, i, 1)), DatumGetInt32(pg::value_of(written, i, 2)));
            element->recorded = true;
            element->state = pg::value_of(written, i, 3);
        }
    }

    // Why elements were not recorded, and in what state their tasks are. A task that has succeeded stays so; of others
    // the retry that decides may have begun anew.
    void look_at(const Part& part) {
        Part seen = {static_cast<Element**>(palloc(sizeof(Element*) * part.n)), 0};
        for (int i = 0; i < part.n; ++i) {
            const Element& element = *part.items[i];
            if (!element.recorded || pg::view(DatumGetTextPP(element.state)) != "SUCCESS")
                seen.items[seen.n++] = part.items[i];
        }
        if (seen.n == 0) return;
        Parameters parameters = {};
        add_outcomes(seen, parameters);
        parameters.add_column(
            BOOLOID, values(seen, [](const Element& element) { return BoolGetDatum(element.failed); }), seen.n);
        const int n = static_cast<int>(run_planned(tasks_, find_verdicts, seen.n, parameters));
        SPITupleTable* found = SPI_tuptable;
        for (int i = 0; i < n; ++i) {
            Element& element = *seen.items[DatumGetInt64(pg::value_of(found, i, 1)) - 1];
            element.state = pg::value_of(found, i, 2);
            if (!element.recorded) element.rejected = SPI_getvalue(found->vals[i], found->tupdesc, 3);
        }
    }

    template <typename Value>
    static Datum* values(const Part& part, Value value) {
        auto* made = static_cast<Datum*>(palloc(sizeof(Datum) * Max(part.n, 1)));
        for (int i = 0; i < part.n; ++i) made[i] = value(*part.items[i]);
        return made;
    }

    static void add_keys(const Part& part, Parameters& parameters) {
        parameters.add_column(
            UUIDOID, values(part, [](const Element& element) { return UUIDPGetDatum(&element.flow); }), part.n);
        parameters.add_column(INT4OID, values(part, [](const Element& element) { return Int32GetDatum(element.node); }),
                              part.n);
    }

    void add_outcomes(const Part& part, Parameters& parameters) const {
        add_keys(part, parameters);
        parameters.add_column(
            INT8OID, values(part, [](const Element& element) { return Int64GetDatum(element.token); }), part.n);
        auto* nulls = static_cast<bool*>(palloc(sizeof(bool) * part.n));
        for (int i = 0; i < part.n; ++i) nulls[i] = part.items[i]->said.isnull;
        parameters.add_column(JSONBOID, values(part, [](const Element& element) { return element.said.value; }), part.n,
                              nulls);
        parameters.add(TEXTOID, PointerGetDatum(worker_));
        parameters.add(TIMESTAMPTZOID, TimestampTzGetDatum(intent_.at));
    }

    static Element* find(const Part& part, const pg_uuid_t& flow, int32 node) {
        return *std::lower_bound(part.items, part.items + part.n, node, [&](const Element* element, int32 wanted) {
            const int order = memcmp(&element->flow, &flow, UUID_LEN);
            return order != 0 ? order < 0 : element->node < wanted;
        });
    }

    Binding& tasks_;
    text* worker_;
    Intent& intent_;
};

// Whether it was done: several elements are tried in a subtransaction. Raises transient errors.
bool record(FunctionCallInfo fcinfo, Elements& elements, text* worker, bool tried) {
    const Target tasks = open_tasks();
    Intent intent = {};
    intent.root = tasks.binding->root;
    intent.column = NameStr(tasks.binding->column);
    intent.any_token = true;
    const IntentScope scope(intent);
    return pg::call([&] {
        auto* result = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
        SPI_connect();
        auto all = [&] {
            lock_flows(*tasks.binding, elements);
            record_elements(*tasks.binding, worker, intent, elements);
        };
        ErrorData* error = nullptr;
        if (tried)
            error = try_alone(all);
        else
            all();
        // the error is in memory that SPI_finish frees
        if (error != nullptr && core::is_transient(unpack_sql_state(error->sqlerrcode))) ReThrowError(error);
        for (int i = 0; error == nullptr && i < elements.n; ++i)
            if (elements.items[i].problem == nullptr) answer(result, elements.items[i]);
        SPI_finish();
        close_target(tasks);
        return error == nullptr;
    });
}

// What follows from one element must not keep the others from being recorded: with subtransactions, in SQL.
void record_apart(FunctionCallInfo fcinfo, const char* statement, const Elements& elements, text* worker) {
    const Target tasks = open_tasks();
    pg::call([&] {
        auto* result = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
        SPI_connect();
        Parameters parameters = {};
        parameters.add(JSONBOID, sound_elements(elements));
        parameters.add(TEXTOID, PointerGetDatum(worker));
        run_planned(*tasks.binding, statement, parameters, Order::sorted);
        for (uint64 i = 0; i < SPI_processed; ++i) {
            Datum values[answer_columns];
            bool nulls[answer_columns];
            for (int column = 0; column < answer_columns; ++column)
                values[column] =
                    SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, column + 1, &nulls[column]);
            put_answer(result, values, nulls);
        }
        SPI_finish();
        close_target(tasks);
    });
}

}  // namespace

Target open_tasks() {
    return open_work(pg::call([] { return get_relname_relid("tasks", get_namespace_oid("pawl_saga", false)); }),
                     "state");
}

Elements elements_argument(FunctionCallInfo fcinfo) {
    Jsonb* results = PG_ARGISNULL(0) ? nullptr : pg::call([&] { return PG_GETARG_JSONB_P(0); });
    if (results == nullptr || !JB_ROOT_IS_ARRAY(results) || JB_ROOT_IS_SCALAR(results))
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "results must be a JSON array", {},
                          "[{\"flow_uuid\": \"...\", \"node\": 1, \"token\": 1, \"result\": {...}}, {\"flow_uuid\": "
                          "\"...\", \"node\": 2, \"token\": 1, \"failure\": {\"message\": \"...\"}}]");
    return pg::call([&] { return read_elements(results); });
}

Flows lock_flows(Binding& tasks, const Elements& elements) {
    return Recording::lock_flows(tasks, elements);
}

void record_elements(Binding& tasks, text* worker, Intent& intent, const Elements& elements) {
    intent.at = GetCurrentTimestamp();
    Recording(tasks, worker, intent).record(elements);
}

void answer(ReturnSetInfo* result, const Element& element) {
    const char* problem = element.problem != nullptr ? element.problem : element.rejected;
    const bool again = problem != nullptr && strcmp(problem, "again") == 0;
    const bool ok = problem == nullptr || again;
    const Datum values[] = {UUIDPGetDatum(&element.flow), Int32GetDatum(element.node), BoolGetDatum(ok), element.state,
                            ok ? static_cast<Datum>(0) : CStringGetTextDatum(problem)};
    const bool nulls[] = {!element.has_flow, !element.has_node, false, element.state == 0, ok};
    put_answer(result, values, nulls);
}

void report(FunctionCallInfo fcinfo, Elements& elements, text* worker) {
    pg::call([&] {
        auto* result = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
        for (int i = 0; i < elements.n; ++i)
            if (elements.items[i].problem != nullptr) answer(result, elements.items[i]);
    });
    if (concern_several_flows(elements))
        record_apart(fcinfo, record_flows, elements, worker);
    else if (elements.sound > 0 && !record(fcinfo, elements, worker, elements.sound > 1))
        record_apart(fcinfo, record_tasks, elements, worker);
}

// pawl_saga._report(results, worker): sound elements.
PAWL_FUNCTION(pawl_saga_report_flow) {
    Elements elements = elements_argument(fcinfo);
    text* worker = pg::text_argument(fcinfo, 1);
    pg::call([&] { pg::materialize(fcinfo, MAT_SRF_USE_EXPECTED_DESC); });
    record(fcinfo, elements, worker, false);
    return static_cast<Datum>(0);
}

PAWL_FUNCTION(pawl_saga_report) {
    Elements elements = elements_argument(fcinfo);
    text* processor = processor_setting();
    text* worker = PG_ARGISNULL(1) ? processor : pg::text_argument(fcinfo, 1);
    if (worker == nullptr) throw pg::Failure(sqlstate::not_the_owner, "no processor given", {}, "processor => '...'");
    // what follows is the worker's doing, too
    const int settings = pg::call([&] {
        const int level = NewGUCNestLevel();
        set_config_option("pawl.processor", text_to_cstring(worker), PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true,
                          0, false);
        pg::materialize(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
        return level;
    });
    report(fcinfo, elements, worker);
    pg::call([&] { AtEOXact_GUC(true, settings); });
    return static_cast<Datum>(0);
}

}  // namespace pawl::saga
