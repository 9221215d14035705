// May throw and may ereport: reads the reports of workers. What is invalid in them raises no error, but is returned.
#include "pg/bridge.hpp"
#include "pg/json.hpp"

extern "C" {
#include "funcapi.h"
}

namespace pawl {

namespace {

// An element of a report whose form is right.
struct Result {
    pg_uuid_t operation;
    int64 row_number;
    int32 step_index;
    NullableDatum token;
    Datum outcome;
    Datum message;
    int place;
};

bool read_number(const JsonbValue& value, int64* number) {
    std::string_view digits = pg::scalar_text(value);
    const bool negative = !digits.empty() && digits.front() == '-';
    if (negative) digits.remove_prefix(1);
    if (!pg::read_digits(digits, 18, number)) return false;
    if (negative) *number = -*number;
    return true;
}

// As the operator ->> returns it; empty for null.
Datum text_of(JsonbValue& value) {
    switch (value.type) {
        case jbvNull:
            return CStringGetTextDatum("");
        case jbvString:
            return PointerGetDatum(cstring_to_text_with_len(value.val.string.val, value.val.string.len));
        case jbvNumeric:
            return CStringGetTextDatum(pstrdup(pg::scalar_text(value).data()));
        case jbvBool:
            return CStringGetTextDatum(value.val.boolean ? "true" : "false");
        default:
            return CStringGetTextDatum(
                JsonbToCString(nullptr, value.val.binary.data, static_cast<int>(value.val.binary.len)));
    }
}

bool is_outcome(std::string_view said) {
    return said == "ok" || said == "fail" || said == "done" || said == "pending" || said == "failed";
}

bool read_result(const JsonbValue& element, Result* result) {
    if (element.type != jbvBinary || !JsonContainerIsObject(element.val.binary.data)) return false;
    JsonbContainer* object = element.val.binary.data;
    JsonbValue value;
    int64 number;
    if (!pg::find_member(object, "operation", &value) || !pg::read_uuid(pg::scalar_text(value), &result->operation))
        return false;
    if (!pg::find_member(object, "row_number", &value) || !read_number(value, &result->row_number)) return false;
    if (!pg::find_member(object, "step_index", &value) || !read_number(value, &number)) return false;
    if (number < 0 || number > PG_INT32_MAX) return false;
    result->step_index = static_cast<int32>(number);
    result->token = {static_cast<Datum>(0), true};
    if (pg::find_member(object, "token", &value) && value.type != jbvNull) {
        if (!read_number(value, &number)) return false;
        result->token = {Int64GetDatum(number), false};
    }
    if (!pg::find_member(object, "result", &value) || value.type != jbvString || !is_outcome(pg::scalar_text(value)))
        return false;
    result->outcome = text_of(value);
    if (!pg::find_member(object, "message", &value)) value.type = jbvNull;
    result->message = text_of(value);
    return true;
}

int compare_rows(const Result& a, const Result& b) {
    const int order = memcmp(&a.operation, &b.operation, UUID_LEN);
    if (order != 0) return order;
    if (a.row_number != b.row_number) return a.row_number < b.row_number ? -1 : 1;
    return (a.step_index > b.step_index) - (a.step_index < b.step_index);
}

int by_row_and_place(const void* left, const void* right) {
    const auto* a = static_cast<const Result*>(left);
    const auto* b = static_cast<const Result*>(right);
    const int order = compare_rows(*a, *b);
    return order != 0 ? order : (a->place > b->place) - (a->place < b->place);
}

// The columns of pawl_bulk._read_results.
enum Column { operations, rows, steps, tokens, outcomes, messages, again, invalid, columns };

template <typename Value>
Datum array_of(const Result* results, int n, Oid type, Value value) {
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * n));
    auto* nulls = static_cast<bool*>(palloc(sizeof(bool) * n));
    for (int i = 0; i < n; ++i) {
        const NullableDatum one = value(results[i]);
        values[i] = one.value;
        nulls[i] = one.isnull;
    }
    int16 length;
    bool by_value;
    char alignment;
    get_typlenbyvalalign(type, &length, &by_value, &alignment);
    int dimensions[] = {n};
    int bounds[] = {1};
    return PointerGetDatum(construct_md_array(values, nulls, 1, dimensions, bounds, type, length, by_value, alignment));
}

Datum read_results(FunctionCallInfo fcinfo, JsonbContainer* sent) {
    TupleDesc descriptor;
    if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE || descriptor->natts != columns ||
        !JsonContainerIsArray(sent))
        elog(ERROR, "a report must be an array, and is returned as a record");
    const int n = static_cast<int>(JsonContainerSize(sent));
    auto* results = static_cast<Result*>(MemoryContextAllocHuge(CurrentMemoryContext, sizeof(Result) * Max(n, 1)));
    int sound = 0;
    JsonbParseState* rest = nullptr;
    for (int i = 0; i < n; ++i) {
        JsonbValue* element = getIthJsonbValueFromContainer(sent, i);
        results[sound].place = i;
        if (read_result(*element, &results[sound])) {
            ++sound;
            continue;
        }
        if (rest == nullptr) pushJsonbValue(&rest, WJB_BEGIN_ARRAY, nullptr);
        pushJsonbValue(&rest, WJB_ELEM, element);
    }
    qsort(results, static_cast<std::size_t>(sound), sizeof(Result), by_row_and_place);

    Datum values[columns] = {};
    bool nulls[columns];
    memset(nulls, true, sizeof(nulls));
    const auto set = [&](Column column, Datum value) {
        values[column] = value;
        nulls[column] = false;
    };
    bool repeated = false;
    for (int i = 1; i < sound; ++i) repeated |= compare_rows(results[i - 1], results[i]) == 0;
    set(again, BoolGetDatum(repeated));
    if (rest != nullptr) set(invalid, JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&rest, WJB_END_ARRAY, nullptr))));
    if (sound > 0) {
        const auto some = [](Datum value) { return NullableDatum{value, false}; };
        set(operations,
            array_of(results, sound, UUIDOID, [&](const Result& r) { return some(UUIDPGetDatum(&r.operation)); }));
        set(rows,
            array_of(results, sound, INT8OID, [&](const Result& r) { return some(Int64GetDatum(r.row_number)); }));
        set(steps,
            array_of(results, sound, INT4OID, [&](const Result& r) { return some(Int32GetDatum(r.step_index)); }));
        set(tokens, array_of(results, sound, INT8OID, [](const Result& r) { return r.token; }));
        set(outcomes, array_of(results, sound, TEXTOID, [&](const Result& r) { return some(r.outcome); }));
        set(messages, array_of(results, sound, TEXTOID, [&](const Result& r) { return some(r.message); }));
    }
    return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

}  // namespace

// pawl_bulk._read_results(results)
PAWL_FUNCTION(pawl_bulk_read_results) {
    return pg::call([&] { return read_results(fcinfo, &PG_GETARG_JSONB_P(0)->root); });
}

}  // namespace pawl
