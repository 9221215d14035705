// May ereport; owns nothing. See inputs.hpp.
#include "packs/dag/inputs.hpp"

#include <algorithm>

#include "fire/plans.hpp"
#include "fire/target.hpp"
#include "packs/dag/json_size.hpp"

extern "C" {
#include "access/detoast.h"
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

// A number of 12 bytes in jsonb can have 131,072 digits in text, so what is not larger than this fits a message.
constexpr Size small_input = 64 * 1024;

constexpr Size most_in_jsonb = JENTRY_OFFLENMASK;  // of an array or an object
constexpr Size most_overhead = 16;                 // of a value by itself, compared with the same in an array
constexpr int64 most_text = 1'000'000'000;         // of a row: a message and each of its values is less than 1 GB

using Steps = ClaimedSteps;

Datum value_of(SPITupleTable* table, int row, int column, bool* null) {
    return SPI_getbinval(table->vals[row], table->tupdesc, column, null);
}

std::string_view text_of(SPITupleTable* table, int row, int column) {
    bool null;
    const Datum value = value_of(table, row, column, &null);
    return null ? std::string_view() : pg::view(DatumGetTextPP(value));
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

void push_result(JsonbParseState** to, JsonbIteratorToken token, const Parent& parent) {
    JsonbValue value;
    value.type = jbvNull;
    Jsonb* result = parent.has_result ? DatumGetJsonbP(parent.result) : nullptr;
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
        for (int i = 0; i < n; ++i) push_result(to, WJB_ELEM, same[i]);
        pushJsonbValue(to, WJB_END_ARRAY, nullptr);
    } else {
        push_result(to, WJB_VALUE, same[0]);
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
        parent.result = value_of(table, i, 6, &null);
        parent.has_result = !null;
    }
    qsort(found, n, sizeof(Parent), by_name);
    return found;
}

void find_parents(Binding& binding, const Steps& steps) {
    Parameters parameters = {};
    parameters.add(UUIDARRAYOID, uuids(steps, task, lacks_parents));
    if (parameters.values[0] == 0) return;
    parameters.add(UUIDARRAYOID, uuids(steps, step, lacks_parents));
    const auto n = static_cast<int>(run_planned(binding, parents_of_steps, parameters, Order::sorted));
    const Parent* found = read_parents(SPI_tuptable, n);
    int64 number = 0;
    for (int i = 0, first = 0; i < steps.n; ++i) {
        if (!lacks_parents(steps.items[i])) continue;
        int end = first;
        for (++number; end < n && found[end].of == number;) ++end;
        steps.items[i].ended = found + first;
        steps.items[i].nended = end - first;
        first = end;
    }
}

// What the columns of a step hold that a user can fill, without decompressing them.
Size size_of(const ClaimedStep& step) {
    Size size = 0;
    for (const Column column : {options, context}) size += toast_raw_datum_size(step.values[column]);
    if (step.knows_parents) return size + toast_raw_datum_size(step.values[parents]);
    for (int i = 0; i < step.nended; ++i)
        if (step.ended[i].has_result) size += toast_raw_datum_size(step.ended[i].result);
    return size;
}

[[noreturn]] void raise_too_large(const char* what, int64 size, int64 most) {
    ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("the input of the step is too large"),
                    errdetail("%s %lld bytes, more than %lld.", what, static_cast<long long>(size),
                              static_cast<long long>(most)),
                    errhint("Store large results elsewhere, and report where they are.")));
}

// Rejects results that no jsonb value can hold together, before any of them is read.
void require_in_jsonb(const ClaimedStep& step) {
    Size least = 0;
    for (int i = 0; i < step.nended; ++i)
        if (step.ended[i].has_result)
            least += Max(toast_raw_datum_size(step.ended[i].result), most_overhead) - most_overhead;
    if (least > most_in_jsonb)
        raise_too_large("The results that it depends on have", static_cast<int64>(least), most_in_jsonb);
}

// Steps of one task have the same context, which is measured once.
void require_in_message(const ClaimedStep& step, Measured& measured) {
    if (measured.context != step.values[context])
        measured = {step.values[context], json_text_size(step.values[context], most_text)};
    const int64 size = measured.size + json_text_size(step.values[options], most_text) +
                       json_text_size(step.values[parents], most_text);
    if (size > most_text) raise_too_large("Its context, handler_options and parents have as text", size, most_text);
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

void find_inputs(Binding& binding, const ClaimedSteps& steps) {
    add_tasks(binding, steps);
    find_parents(binding, steps);
    const Datum none = parents_object(nullptr, 0);
    for (int i = 0; i < steps.n; ++i) {
        ClaimedStep& claimed = steps.items[i];
        if (claimed.knows_parents || claimed.nended > 0) continue;
        claimed.values[parents] = none;
        claimed.knows_parents = true;
    }
}

bool is_small(const ClaimedStep& step) {
    for (int i = 0; i < step.nended; ++i)
        if (step.ended[i].has_result && VARATT_IS_EXTERNAL(DatumGetPointer(step.ended[i].result))) return false;
    return size_of(step) <= small_input;
}

void form_input(ClaimedStep& step, Measured& measured) {
    const bool small = size_of(step) <= small_input;
    if (!small) require_in_jsonb(step);
    if (!step.knows_parents) step.values[parents] = parents_object(step.ended, step.nended);
    if (!small) require_in_message(step, measured);
}

}  // namespace dag

}  // namespace pawl
