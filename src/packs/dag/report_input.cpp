// May throw and may ereport: reads the reports of workers. What is invalid in them raises no error, but is told as the
// problem of its element.
#include "packs/dag/report_input.hpp"

#include "fire/plans.hpp"
#include "fire/target.hpp"
#include "pg/json.hpp"

extern "C" {
#include "utils/numeric.h"
#include "utils/typcache.h"
}

namespace pawl {

using dag::Element;
using dag::Elements;

namespace {

// A member of an object; of type jbvNull if there is none, or this is no object. Ereports, as all below.
JsonbValue member_of(const JsonbValue& value, std::string_view key) {
    JsonbValue found;
    found.type = jbvNull;
    if (value.type == jbvBinary && JsonContainerIsObject(value.val.binary.data))
        getKeyJsonValueFromContainer(value.val.binary.data, key.data(), static_cast<int>(key.size()), &found);
    return found;
}

bool has_member(const JsonbValue& value, std::string_view key) {
    JsonbValue found;
    return value.type == jbvBinary && JsonContainerIsObject(value.val.binary.data) &&
           getKeyJsonValueFromContainer(value.val.binary.data, key.data(), static_cast<int>(key.size()), &found) !=
               nullptr;
}

bool read_key(Element* element, Element::Column column, const JsonbValue& value) {
    auto* uuid = static_cast<pg_uuid_t*>(palloc(sizeof(pg_uuid_t)));
    if (!pg::read_uuid(pg::scalar_text(value), uuid)) return false;
    element->set(column, UUIDPGetDatum(uuid));
    return true;
}

// The wait that was asked for. Returns false if it is neither a time nor a date.
bool read_wait(Element* element, JsonbValue asked) {
    static constexpr Oid types[] = {JSONBOID};
    FmgrInfo function;
    fmgr_info(LookupFuncName(list_make2(makeString(pstrdup("pawl_dag")), makeString(pstrdup("_retry_after"))), 1, types,
                             false),
              &function);
    LOCAL_FCINFO(call, 1);
    InitFunctionCallInfoData(*call, &function, 1, InvalidOid, nullptr, nullptr);
    call->args[0] = {JsonbPGetDatum(JsonbValueToJsonb(&asked)), false};
    const Datum wait_asked = FunctionCallInvoke(call);
    if (!call->isnull) element->set(Element::wait, wait_asked);
    return !call->isnull;
}

// What is wrong with the form of an element; null: nothing. Reads it.
const char* read_element(JsonbValue value, Element* element) {
    using Column = Element::Column;
    JsonbValue error = member_of(value, "error");
    JsonbValue result = member_of(value, "result");
    const JsonbValue permanent = member_of(error, "permanent");
    const JsonbValue asked = member_of(error, "retry_after");
    const bool failed = error.type != jbvNull;
    int64 token = 0;
    const bool has_task = read_key(element, Column::task, member_of(value, "task_uuid"));
    const bool has_step = read_key(element, Column::step, member_of(value, "step_uuid"));
    const bool has_token = pg::read_digits(pg::scalar_text(member_of(value, "token")), 18, &token);
    const bool has_wait = asked.type == jbvNull || read_wait(element, asked);
    const bool has_result = has_member(value, "result");
    if (has_token) element->set(Column::token, Int64GetDatum(token));
    element->set(Column::failed, BoolGetDatum(failed));
    element->set(Column::permanent, BoolGetDatum(permanent.type == jbvBool && permanent.val.boolean));
    if (failed) element->set(Column::error, JsonbPGetDatum(JsonbValueToJsonb(&error)));
    if (!failed && has_result) element->set(Column::result, JsonbPGetDatum(JsonbValueToJsonb(&result)));
    if (value.type != jbvBinary || !JsonContainerIsObject(value.val.binary.data))
        return "22023 an element of a report must be a JSON object";
    if (!has_task) return "22023 task_uuid must be a uuid";
    if (!has_step) return "22023 step_uuid must be a uuid";
    if (!has_token) return "22023 token must be the number that the claim returned";
    if (failed && result.type != jbvNull) return "22023 an element must have a result or an error, not both";
    if (!failed && !has_result) return "22023 an element must have a result or an error";
    if (permanent.type != jbvNull && permanent.type != jbvBool)
        return "22023 permanent of an error must be true or false";
    return has_wait ? nullptr : "22023 retry_after of an error must be a number of seconds from 0 on, or a date";
}

// By step and token: a result with the token of an earlier claim is not that of the step.
int by_claim(const Element& a, const Element& b) {
    for (const Element::Column column : {Element::task, Element::step})
        if (const int order = memcmp(DatumGetUUIDP(a.values[column]), DatumGetUUIDP(b.values[column]), UUID_LEN);
            order != 0)
            return order;
    const int64 one = DatumGetInt64(a.values[Element::token]);
    const int64 other = DatumGetInt64(b.values[Element::token]);
    return one == other ? 0 : one < other ? -1 : 1;
}

int by_claim_and_place(const void* one, const void* other) {
    const auto& a = **static_cast<Element* const*>(one);
    const auto& b = **static_cast<Element* const*>(other);
    const int order = by_claim(a, b);
    return order != 0 ? order : DatumGetInt32(a.values[Element::n]) - DatumGetInt32(b.values[Element::n]);
}

}  // namespace

Elements dag::read_elements(JsonbContainer* results) {
    const int n = static_cast<int>(JsonContainerSize(results));
    const Elements read = {static_cast<Element*>(palloc(sizeof(Element) * Max(n, 1))), n};
    for (int i = 0; i < n; ++i) {
        Element& element = read.items[i];
        memset(element.nulls, true, sizeof(element.nulls));
        element.set(Element::n, Int32GetDatum(i + 1));
        const char* problem = read_element(*getIthJsonbValueFromContainer(results, i), &element);
        if (problem != nullptr) element.set(Element::problem, CStringGetTextDatum(problem));
    }
    return read;
}

bool dag::same_id(const Element& one, const Element& other, Element::Column column) {
    return memcmp(DatumGetUUIDP(one.values[column]), DatumGetUUIDP(other.values[column]), UUID_LEN) == 0;
}

Element** dag::sound_elements(const Elements& elements, int* n) {
    auto** sound = static_cast<Element**>(palloc(sizeof(Element*) * Max(elements.n, 1)));
    int found = 0;
    for (int i = 0; i < elements.n; ++i)
        if (elements.items[i].nulls[Element::problem]) sound[found++] = &elements.items[i];
    if (found > 1) qsort(sound, found, sizeof(Element*), by_claim_and_place);
    *n = 0;
    for (int i = 0; i < found; ++i)
        if (i == 0 || by_claim(*sound[i], *sound[*n - 1]) != 0) sound[(*n)++] = sound[i];
    return sound;
}

namespace {

Datum read_reports(FunctionCallInfo fcinfo, JsonbContainer* results) {
    const Oid type = get_element_type(get_func_rettype(fcinfo->flinfo->fn_oid));
    TupleDesc descriptor = lookup_rowtype_tupdesc(type, -1);
    if (descriptor->natts != Element::columns || !JsonContainerIsArray(results))
        elog(ERROR, "a report must be an array, and its elements are of type pawl_dag._reported");
    const Elements read = dag::read_elements(results);
    auto* elements = static_cast<Datum*>(palloc(sizeof(Datum) * Max(read.n, 1)));
    for (int i = 0; i < read.n; ++i)
        elements[i] = HeapTupleGetDatum(heap_form_tuple(descriptor, read.items[i].values, read.items[i].nulls));
    ReleaseTupleDesc(descriptor);
    return PointerGetDatum(construct_array(elements, read.n, type, -1, false, TYPALIGN_DOUBLE));
}

}  // namespace

// pawl_dag._read_reports(results)
PAWL_FUNCTION(pawl_dag_read_reports) {
    return pg::call([&] { return read_reports(fcinfo, &PG_GETARG_JSONB_P(0)->root); });
}

namespace {

// Only steps that this processor has are written, in the order of their keys; of two results for one claim the first
// is taken. What makes a step its own stands in a CASE: as a condition it would imply that of the index of leases,
// which seems the smallest where no step is leased when statistics are made, and has a dead entry for each step since.
constexpr const char* record_reported =
    "UPDATE pawl_dag.steps s SET state = CASE WHEN r.failed THEN 'enqueued_as_error_for_orchestration' "
    "ELSE 'enqueued_for_orchestration' END, result = CASE WHEN r.failed THEN s.result ELSE r.result END, "
    "error = CASE WHEN r.failed THEN r.error END, "
    "permanent = CASE WHEN r.failed THEN r.permanent ELSE s.permanent END, "
    "backoff_request = CASE WHEN r.failed THEN r.wait ELSE s.backoff_request END "
    "FROM (SELECT DISTINCT ON (x.task, x.step, x.token) x.* FROM unnest($1) x WHERE x.problem IS NULL "
    "ORDER BY x.task, x.step, x.token, x.n) r WHERE s.task_uuid = r.task AND s.step_uuid = r.step "
    "AND CASE WHEN s.state = 'in_progress' THEN s.token = r.token AND s.worker_uuid::text = lower($2) "
    "AND s.lease_until > clock_timestamp() ELSE false END RETURNING r.n";

Datum record(Binding& binding, ArrayType* reports, text* worker) {
    MemoryContext caller = CurrentMemoryContext;
    SPI_connect();
    Parameters parameters = {};
    parameters.add(get_array_type(ARR_ELEMTYPE(reports)), PointerGetDatum(reports));
    parameters.add(TEXTOID, PointerGetDatum(worker));
    const auto n = static_cast<int>(run_planned(binding, record_reported, parameters, Order::sorted));
    auto* numbers = static_cast<Datum*>(palloc(sizeof(Datum) * Max(n, 1)));
    bool null;
    for (int i = 0; i < n; ++i) numbers[i] = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &null);
    MemoryContext spi = MemoryContextSwitchTo(caller);
    const Datum recorded = PointerGetDatum(construct_array(numbers, n, INT4OID, sizeof(int32), true, TYPALIGN_INT));
    MemoryContextSwitchTo(spi);
    SPI_finish();
    return recorded;
}

}  // namespace

// pawl_dag._record_reported(reports, worker)
PAWL_FUNCTION(pawl_dag_record_reported) {
    const Oid relation = pg::call([] { return get_relname_relid("steps", get_namespace_oid("pawl_dag", false)); });
    const Target steps = open_target(relation, "state");
    return pg::call([&] {
        const Datum recorded = record(*steps.binding, PG_GETARG_ARRAYTYPE_P(0), PG_GETARG_TEXT_PP(1));
        close_target(steps);
        return recorded;
    });
}

}  // namespace pawl
