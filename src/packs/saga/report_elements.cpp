// May ereport; owns nothing. See report_elements.hpp.
#include "packs/saga/report_elements.hpp"

#include "pg/json.hpp"

namespace pawl::saga {

namespace {

constexpr const char* malformed = "22023 flow_uuid, node or token is missing or malformed";

bool is_given(bool found, const JsonbValue& value) {
    return found && value.type != jbvNull;
}

// The form of what is said: a null failure beside a result is none.
const char* read_outcome(JsonbContainer* object, Element& element) {
    JsonbValue result, failure;
    const bool has_result = pg::find_member(object, "result", &result);
    const bool has_failure = pg::find_member(object, "failure", &failure);
    element.failed = is_given(has_failure, failure);
    if (element.failed && is_given(has_result, result))
        return "22023 an element must have a result or a failure, not both";
    if (has_failure && !element.failed && !has_result) return "22023 a failure must not be null";
    element.said.isnull = !has_failure && !has_result;
    if (element.said.isnull) return nullptr;
    element.said.value = JsonbPGetDatum(JsonbValueToJsonb(element.failed ? &failure : &result));
    return nullptr;
}

bool read_key(JsonbContainer* object, Element& element) {
    JsonbValue value;
    int64 number;
    element.has_flow =
        pg::find_member(object, "flow_uuid", &value) && pg::read_uuid(pg::scalar_text(value), &element.flow);
    element.has_node = pg::find_member(object, "node", &value) && pg::read_digits(pg::scalar_text(value), 9, &number);
    if (element.has_node) element.node = static_cast<int32>(number);
    const bool has_token = is_given(pg::find_member(object, "token", &value), value);
    const bool is_number = !has_token || pg::read_digits(pg::scalar_text(value), 18, &element.token);
    return element.has_flow && element.has_node && is_number;
}

Element read_element(JsonbValue* sent) {
    Element element = {};
    element.sent = *sent;
    element.token = no_token;
    element.problem = malformed;
    if (sent->type != jbvBinary || !JsonContainerIsObject(sent->val.binary.data)) return element;
    if (!read_key(sent->val.binary.data, element)) {
        element.has_flow = false;
        return element;
    }
    element.problem = read_outcome(sent->val.binary.data, element);
    return element;
}

int compare_tasks(const Element* a, const Element* b) {
    const int order = memcmp(&a->flow, &b->flow, UUID_LEN);
    return order != 0 ? order : (a->node > b->node) - (a->node < b->node);
}

int by_task_and_place(const void* left, const void* right) {
    const Element* a = *static_cast<Element* const*>(left);
    const Element* b = *static_cast<Element* const*>(right);
    const int order = compare_tasks(a, b);
    return order != 0 ? order : (a > b) - (a < b);
}

}  // namespace

Elements read_elements(const Jsonb* results) {
    auto* array = const_cast<JsonbContainer*>(&results->root);
    Elements elements = {};
    elements.n = static_cast<int>(JsonContainerSize(array));
    elements.items =
        static_cast<Element*>(MemoryContextAllocHuge(CurrentMemoryContext, sizeof(Element) * Max(elements.n, 1)));
    elements.by_task = static_cast<Element**>(palloc(sizeof(Element*) * Max(elements.n, 1)));
    for (int i = 0; i < elements.n; ++i) {
        elements.items[i] = read_element(getIthJsonbValueFromContainer(array, i));
        if (elements.items[i].problem == nullptr) elements.by_task[elements.sound++] = &elements.items[i];
    }
    qsort(elements.by_task, static_cast<std::size_t>(elements.sound), sizeof(Element*), by_task_and_place);
    for (int i = 1; i < elements.sound; ++i) {
        const Element* before = elements.by_task[i - 1];
        if (compare_tasks(before, elements.by_task[i]) == 0) elements.by_task[i]->turn = before->turn + 1;
    }
    return elements;
}

bool concern_several_flows(const Elements& elements) {
    return elements.sound > 1 &&
           memcmp(&elements.by_task[0]->flow, &elements.by_task[elements.sound - 1]->flow, UUID_LEN) != 0;
}

Datum sound_elements(const Elements& elements) {
    JsonbParseState* state = nullptr;
    pushJsonbValue(&state, WJB_BEGIN_ARRAY, nullptr);
    for (int i = 0; i < elements.n; ++i)
        if (elements.items[i].problem == nullptr) pushJsonbValue(&state, WJB_ELEM, &elements.items[i].sent);
    return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, nullptr)));
}

}  // namespace pawl::saga
