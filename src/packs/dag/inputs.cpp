// May throw and may ereport: pawl_dag._claimed, which returns claimed steps with what they work on.
#include "packs/dag/inputs.hpp"

#include <algorithm>

#include "fire/plans.hpp"
#include "fire/target.hpp"

extern "C" {
#include "utils/typcache.h"
}

namespace pawl {

namespace dag {

namespace {

constexpr const char* tasks_of_steps =
    "SELECT t.task_uuid, t.context, t.correlation_id, t.traceparent, t.tracestate FROM pawl_dag.tasks t "
    "WHERE t.task_uuid = ANY ($1)";

constexpr const char* parents_of_steps =
    "SELECT x.n, p.name, p.map_of, p.map_index, p.state, p.result FROM unnest($1, $2) WITH ORDINALITY x(task, step, n) "
    "JOIN pawl_dag.edges e ON e.child_uuid = x.step AND e.task_uuid = x.task "
    "JOIN pawl_dag.steps p ON p.task_uuid = e.task_uuid AND p.step_uuid = e.parent_uuid";

using Column = ClaimedStep::Column;
using enum ClaimedStep::Column;
constexpr const char* step_columns[] = {"task_uuid",       "step_uuid", "name",     "handler",
                                        "handler_options", "token",     "attempts", "total_parents"};

constexpr Column task_columns[] = {context, correlation, traceparent, tracestate};  // as tasks_of_steps reads them
constexpr int of_task = lengthof(task_columns);

using Steps = ClaimedSteps;

// Everything below ereports and owns nothing.

Datum value_of(SPITupleTable* table, int row, int column, bool* null) {
    return SPI_getbinval(table->vals[row], table->tupdesc, column, null);
}

std::string_view text_of(SPITupleTable* table, int row, int column) {
    bool null;
    const Datum value = value_of(table, row, column, &null);
    return null ? std::string_view() : pg::view(DatumGetTextPP(value));
}

Steps read_steps(ArrayType* claimed) {
    Datum* rows;
    Steps steps = {};
    deconstruct_array(claimed, ARR_ELEMTYPE(claimed), -1, false, TYPALIGN_DOUBLE, &rows, nullptr, &steps.n);
    steps.items = static_cast<ClaimedStep*>(palloc0(sizeof(ClaimedStep) * Max(steps.n, 1)));
    if (steps.n == 0) return steps;
    TupleDesc descriptor = lookup_rowtype_tupdesc_copy(ARR_ELEMTYPE(claimed), -1);
    for (int i = 0; i < steps.n; ++i) {
        HeapTupleHeader row = DatumGetHeapTupleHeader(rows[i]);
        HeapTupleData tuple = {};
        tuple.t_len = HeapTupleHeaderGetDatumLength(row);
        tuple.t_data = row;
        read_step(&steps.items[i], &tuple, descriptor);
    }
    return steps;
}

bool lacks_parents(const ClaimedStep& claimed) {
    return claimed.has_parents && !claimed.knows_parents;
}

bool lacks_task(const ClaimedStep& claimed) {
    return !claimed.found;
}

// A column of those steps that lack something; 0: none does.
Datum uuids(const Steps& steps, Column column, bool (*lacks)(const ClaimedStep&)) {
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * steps.n));
    int n = 0;
    for (int i = 0; i < steps.n; ++i)
        if (lacks(steps.items[i])) values[n++] = steps.items[i].values[column];
    return n == 0 ? 0 : PointerGetDatum(construct_array(values, n, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR));
}

// A task, by its key and the number of its row.
struct FoundTask {
    pg_uuid_t id;
    int row;
};

int by_id(const void* one, const void* other) {
    return memcmp(&static_cast<const FoundTask*>(one)->id, &static_cast<const FoundTask*>(other)->id, UUID_LEN);
}

void add_tasks(Binding& binding, const Steps& steps) {
    Parameters parameters = {};
    parameters.add(UUIDARRAYOID, uuids(steps, task, lacks_task));
    if (parameters.values[0] == 0) return;
    const auto n = static_cast<int>(run_planned(binding, tasks_of_steps, parameters, Order::sorted));
    SPITupleTable* rows = SPI_tuptable;
    auto* tasks = static_cast<FoundTask*>(palloc(sizeof(FoundTask) * Max(n, 1)));
    bool null;
    for (int i = 0; i < n; ++i) tasks[i] = {*DatumGetUUIDP(value_of(rows, i, 1, &null)), i};
    qsort(tasks, n, sizeof(FoundTask), by_id);
    for (int i = 0; i < steps.n; ++i) {
        ClaimedStep& claimed = steps.items[i];
        if (claimed.found) continue;
        const FoundTask wanted = {*DatumGetUUIDP(claimed.values[task]), 0};
        const auto* found = static_cast<FoundTask*>(bsearch(&wanted, tasks, n, sizeof(FoundTask), by_id));
        claimed.found = found != nullptr;
        if (!claimed.found) continue;
        for (int column = 0; column < of_task; ++column) {
            const Column place = task_columns[column];
            claimed.values[place] = value_of(rows, found->row, column + 2, &claimed.nulls[place]);
        }
    }
}

// By step, name, and place in the map; a step of that name comes before the elements of a map.
int by_name(const void* one, const void* other) {
    const auto& a = *static_cast<const Parent*>(one);
    const auto& b = *static_cast<const Parent*>(other);
    if (a.of != b.of) return a.of < b.of ? -1 : 1;
    if (const int order = a.name.compare(b.name); order != 0) return order;
    if (a.mapped != b.mapped) return a.mapped ? 1 : -1;
    return a.place == b.place ? 0 : a.place < b.place ? -1 : 1;
}

JsonbValue json_text(std::string_view text) {
    JsonbValue value;
    value.type = jbvString;
    value.val.string.val = const_cast<char*>(text.data());
    value.val.string.len = static_cast<int>(text.size());
    return value;
}

void push_text(JsonbParseState** to, JsonbIteratorToken token, std::string_view text) {
    JsonbValue value = json_text(text);
    pushJsonbValue(to, token, &value);
}

void push_result(JsonbParseState** to, JsonbIteratorToken token, Jsonb* result) {
    JsonbValue value;
    value.type = jbvNull;
    if (result != nullptr && JB_ROOT_IS_SCALAR(result)) {
        JsonbExtractScalar(&result->root, &value);
    } else if (result != nullptr) {
        value.type = jbvBinary;
        value.val.binary.data = &result->root;
        value.val.binary.len = VARSIZE(result) - VARHDRSZ;
    }
    pushJsonbValue(to, token, &value);
}

// The parents of one name: {"state", "result"}. The result of a map is an array.
void push_parent(JsonbParseState** to, const Parent* same, int n) {
    std::string_view last = same[0].state;
    for (int i = 1; i < n; ++i) last = std::max(last, same[i].state);
    push_text(to, WJB_KEY, same[0].name);
    pushJsonbValue(to, WJB_BEGIN_OBJECT, nullptr);
    push_text(to, WJB_KEY, "state");
    push_text(to, WJB_VALUE, last);
    push_text(to, WJB_KEY, "result");
    if (same[0].mapped) {
        pushJsonbValue(to, WJB_BEGIN_ARRAY, nullptr);
        for (int i = 0; i < n; ++i) push_result(to, WJB_ELEM, same[i].result);
        pushJsonbValue(to, WJB_END_ARRAY, nullptr);
    } else {
        push_result(to, WJB_VALUE, same[0].result);
    }
    pushJsonbValue(to, WJB_END_OBJECT, nullptr);
}

}  // namespace

Datum parents_object(const Parent* sorted, int n) {
    JsonbParseState* to = nullptr;
    pushJsonbValue(&to, WJB_BEGIN_OBJECT, nullptr);
    for (int first = 0, end = 0; first < n; first = end) {
        while (end < n && sorted[end].name == sorted[first].name && sorted[end].mapped == sorted[first].mapped) ++end;
        push_parent(&to, sorted + first, end - first);
    }
    return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&to, WJB_END_OBJECT, nullptr)));
}

namespace {

Parent* read_parents(SPITupleTable* table, int n) {
    auto* found = static_cast<Parent*>(MemoryContextAllocHuge(CurrentMemoryContext, sizeof(Parent) * Max(n, 1)));
    for (int i = 0; i < n; ++i) {
        bool null, no_map;
        Parent& parent = found[i];
        parent.of = DatumGetInt64(value_of(table, i, 1, &null));
        value_of(table, i, 3, &no_map);
        parent.mapped = !no_map;
        parent.name = text_of(table, i, parent.mapped ? 3 : 2);
        parent.place = parent.mapped ? DatumGetInt32(value_of(table, i, 4, &null)) : 0;
        parent.state = text_of(table, i, 5);
        const Datum result = value_of(table, i, 6, &null);
        parent.result = null ? nullptr : DatumGetJsonbP(result);
    }
    qsort(found, n, sizeof(Parent), by_name);
    return found;
}

void add_parents(Binding& binding, const Steps& steps) {
    int n = 0;
    Parent* found = nullptr;
    Parameters parameters = {};
    parameters.add(UUIDARRAYOID, uuids(steps, task, lacks_parents));
    if (parameters.values[0] != 0) {
        parameters.add(UUIDARRAYOID, uuids(steps, step, lacks_parents));
        n = static_cast<int>(run_planned(binding, parents_of_steps, parameters, Order::sorted));
        found = read_parents(SPI_tuptable, n);
    }
    const Datum none = parents_object(nullptr, 0);
    int64 number = 0;
    for (int i = 0, first = 0; i < steps.n; ++i) {
        int end = first;
        if (steps.items[i].knows_parents) continue;
        if (steps.items[i].has_parents)
            for (++number; end < n && found[end].of == number;) ++end;
        steps.items[i].values[parents] = end > first ? parents_object(found + first, end - first) : none;
        first = end;
    }
}

}  // namespace

void read_step(ClaimedStep* read, HeapTuple row, TupleDesc descriptor) {
    auto value = [&](const char* name, bool* null) {
        const int number = SPI_fnumber(descriptor, name);
        if (number <= 0) elog(ERROR, "column \"%s\" of table \"steps\" does not exist", name);
        return heap_getattr(row, number, descriptor, null);
    };
    for (int column = 0; column < ClaimedStep::of_step; ++column)
        read->values[column] = value(step_columns[column], &read->nulls[column]);
    bool null;
    read->has_parents = DatumGetInt32(value(step_columns[ClaimedStep::of_step], &null)) > 0;
}

void add_inputs(Binding& binding, const ClaimedSteps& steps) {
    add_tasks(binding, steps);
    add_parents(binding, steps);
}

}  // namespace dag

namespace {

void return_steps(FunctionCallInfo fcinfo, Binding& binding, ArrayType* claimed) {
    ReturnSetInfo* result = pg::materialize(fcinfo);
    const dag::ClaimedSteps steps = dag::read_steps(claimed);
    if (steps.n == 0) return;
    SPI_connect();
    dag::add_inputs(binding, steps);
    for (int i = 0; i < steps.n; ++i)
        if (steps.items[i].found)
            tuplestore_putvalues(result->setResult, result->setDesc, steps.items[i].values, steps.items[i].nulls);
    SPI_finish();
}

}  // namespace

PAWL_FUNCTION(pawl_dag_claimed) {
    const Oid relation = pg::call([] { return get_relname_relid("steps", get_namespace_oid("pawl_dag", false)); });
    const Target steps = open_target(relation, "state");
    pg::call([&] {
        return_steps(fcinfo, *steps.binding, PG_GETARG_ARRAYTYPE_P(0));
        close_target(steps);
    });
    return static_cast<Datum>(0);
}

}  // namespace pawl
