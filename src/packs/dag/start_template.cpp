// May ereport; owns nothing. See start_template.hpp.
#include "packs/dag/start_template.hpp"

#include "fire/plans.hpp"
#include "pg/spi.hpp"
#include "pg/texts.hpp"
#include "pg/uuid_v7.hpp"

extern "C" {
#include "utils/fmgroids.h"
#include "utils/numeric.h"
}

namespace pawl::dag {

namespace {

constexpr const char* steps_of_template =
    "SELECT s.name, s.handler, s.handler_options, s.level, s.optional, s.retryable, s.max_attempts, s.backoff, "
    "s.timeout, s.map_over FROM pawl_dag.template_steps s WHERE s.template_uuid = $1 ORDER BY s.ordinal";
constexpr const char* edges_of_template =
    "SELECT e.parent, e.child FROM pawl_dag.template_edges e WHERE e.template_uuid = $1";

bool is_sql(const text* handler) {
    return pg::view(handler).substr(0, 4) == "sql:";
}

// The columns as steps_of_template reads them; the path of the map follows.
constexpr NewStep::Column columns_read[] = {NewStep::name,         NewStep::handler,  NewStep::options,
                                            NewStep::level,        NewStep::optional, NewStep::retryable,
                                            NewStep::max_attempts, NewStep::backoff,  NewStep::timeout};

TemplateStep read_step(SPITupleTable* table, int row, text* queue, int32 priority) {
    TemplateStep read = {};
    memset(read.row.nulls, true, sizeof(read.row.nulls));
    int from = 1;
    for (const NewStep::Column column : columns_read)
        read.row.values[column] = SPI_getbinval(table->vals[row], table->tupdesc, from++, &read.row.nulls[column]);
    read.map_over = pg::value_of(table, row, from);
    if (read.map_over != 0) read.row.set(NewStep::map_of, read.row.values[NewStep::name]);
    const bool sql = is_sql(DatumGetTextPP(read.row.values[NewStep::handler]));
    read.row.set(NewStep::queue, PointerGetDatum(sql ? cstring_to_text("sql:") : queue));
    read.row.set(NewStep::priority, Int32GetDatum(priority));
    return read;
}

// A step's number by its name.
struct Named {
    std::string_view name;
    int number;
};

int by_name(const void* one, const void* other) {
    return static_cast<const Named*>(one)->name.compare(static_cast<const Named*>(other)->name);
}

int number_of(const Named* named, int n, Datum wanted) {
    const Named key = {pg::view(DatumGetTextPP(wanted)), 0};
    const auto* found = static_cast<Named*>(bsearch(&key, named, n, sizeof(Named), by_name));
    if (found == nullptr) elog(ERROR, "an edge of the template has no step");
    return found->number;
}

void read_elements(Datum context, Datum path, MapElements* read) {
    LOCAL_FCINFO(call, 2);
    FmgrInfo function;
    fmgr_info(F_JSONB_EXTRACT_PATH, &function);
    InitFunctionCallInfoData(*call, &function, 2, InvalidOid, nullptr, nullptr);
    call->args[0] = {context, false};
    call->args[1] = {path, false};
    const Datum found = FunctionCallInvoke(call);
    Jsonb* array = call->isnull ? nullptr : DatumGetJsonbP(found);
    if (array == nullptr || !JB_ROOT_IS_ARRAY(array) || JB_ROOT_IS_SCALAR(array))
        elog(ERROR, "a mapped step has no array in the context");
    const Size room = sizeof(JsonbValue) * Max(JB_ROOT_COUNT(array), 1);
    read->items = static_cast<JsonbValue*>(MemoryContextAllocHuge(CurrentMemoryContext, room));
    JsonbIterator* iterator = JsonbIteratorInit(&array->root);
    JsonbValue value;
    for (JsonbIteratorToken token; (token = JsonbIteratorNext(&iterator, &value, true)) != WJB_DONE;)
        if (token == WJB_ELEM) read->items[read->n++] = value;
}

int by_child(const void* one, const void* other) {
    const auto& a = *static_cast<const Link*>(one);
    const auto& b = *static_cast<const Link*>(other);
    if (a.child != b.child) return a.child < b.child ? -1 : 1;
    return a.parent == b.parent ? 0 : a.parent < b.parent ? -1 : 1;
}

// Steps that wait for a mapped one without elements wait for what that would have waited for, which is not mapped.
void link_elements(const Template& of, TaskForm* task) {
    int room = of.nlinks;
    for (int i = 0; i < of.nlinks; ++i)
        for (int k = 0; k < of.nlinks && task->size(of.links[i].parent) == 0; ++k)
            room += of.links[k].child == of.links[i].parent;
    auto* links = static_cast<Link*>(palloc(sizeof(Link) * Max(room, 1)));
    int n = 0;
    for (int i = 0; i < of.nlinks; ++i) {
        const Link& link = of.links[i];
        if (task->size(link.child) == 0) continue;
        if (task->size(link.parent) > 0) links[n++] = link;
        for (int k = 0; k < of.nlinks && task->size(link.parent) == 0; ++k)
            if (of.links[k].child == link.parent) links[n++] = {of.links[k].parent, link.child};
    }
    qsort(links, n, sizeof(Link), by_child);
    task->nlinks = 0;
    for (int i = 0; i < n; ++i)
        if (i == 0 || by_child(&links[i], &links[i - 1]) != 0) links[task->nlinks++] = links[i];
    task->links = links;
}

}  // namespace

Template read_template(Binding& binding, Datum id, text* queue, int32 priority) {
    Template read = {};
    Parameters parameters = {};
    parameters.add(UUIDOID, id);
    read.nsteps = static_cast<int>(run_planned(binding, steps_of_template, parameters, Order::sorted));
    SPITupleTable* rows = SPI_tuptable;
    read.steps = static_cast<TemplateStep*>(
        MemoryContextAllocHuge(CurrentMemoryContext, sizeof(TemplateStep) * Max(read.nsteps, 1)));
    auto* named = static_cast<Named*>(palloc(sizeof(Named) * Max(read.nsteps, 1)));
    for (int i = 0; i < read.nsteps; ++i) {
        read.steps[i] = read_step(rows, i, queue, priority);
        read.mapped |= read.steps[i].map_over != 0;
        named[i] = {pg::view(DatumGetTextPP(read.steps[i].row.values[NewStep::name])), i};
    }
    qsort(named, read.nsteps, sizeof(Named), by_name);
    read.nlinks = static_cast<int>(run_planned(binding, edges_of_template, parameters, Order::sorted));
    rows = SPI_tuptable;
    read.links = static_cast<Link*>(palloc(sizeof(Link) * Max(read.nlinks, 1)));
    for (int i = 0; i < read.nlinks; ++i)
        read.links[i] = {number_of(named, read.nsteps, pg::value_of(rows, i, 1)),
                         number_of(named, read.nsteps, pg::value_of(rows, i, 2))};
    return read;
}

TaskForm form_task(const Template& of, Datum context) {
    TaskForm task = {nullptr, nullptr, nullptr, of.links, of.nlinks};
    if (of.mapped) {
        task.elements = static_cast<MapElements*>(palloc0(sizeof(MapElements) * of.nsteps));
        for (int i = 0; i < of.nsteps; ++i)
            if (of.steps[i].map_over != 0) read_elements(context, of.steps[i].map_over, &task.elements[i]);
        link_elements(of, &task);
    }
    task.ids = static_cast<pg_uuid_t**>(palloc(sizeof(pg_uuid_t*) * Max(of.nsteps, 1)));
    task.parents = static_cast<int32*>(palloc0(sizeof(int32) * Max(of.nsteps, 1)));
    for (int i = 0; i < task.nlinks; ++i) task.parents[task.links[i].child] += task.size(task.links[i].parent);
    for (int i = 0; i < of.nsteps; ++i) {
        const int n = task.size(i);
        task.ids[i] =
            static_cast<pg_uuid_t*>(MemoryContextAllocHuge(CurrentMemoryContext, sizeof(pg_uuid_t) * Max(n, 1)));
        for (int k = 0; k < n; ++k) make_uuid_v7(GetCurrentTimestamp(), &task.ids[i][k]);
    }
    return task;
}

Datum options_of_element(const TemplateStep& step, JsonbValue* item, int place) {
    JsonbParseState* state = nullptr;
    auto push_key = [&](const char* key) {
        JsonbValue text;
        text.type = jbvString;
        text.val.string.val = const_cast<char*>(key);
        text.val.string.len = static_cast<int>(strlen(key));
        pushJsonbValue(&state, WJB_KEY, &text);
    };
    pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
    push_key("item");
    pushJsonbValue(&state, WJB_VALUE, item);
    push_key("index");
    JsonbValue number;
    number.type = jbvNumeric;
    number.val.numeric = int64_to_numeric(place);
    pushJsonbValue(&state, WJB_VALUE, &number);
    const Datum own = JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, nullptr)));
    return DirectFunctionCall2(jsonb_concat, step.row.values[NewStep::options], own);
}

}  // namespace pawl::dag
