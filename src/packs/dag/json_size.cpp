// May ereport; owns nothing. See json_size.hpp.
#include "packs/dag/json_size.hpp"

#include "pg/arguments.hpp"

extern "C" {
#include "utils/jsonb.h"
}

namespace pawl {

namespace dag {

namespace {

int64 digits_of(Numeric number) {
    char* digits = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(number)));
    const auto length = static_cast<int64>(strlen(digits));
    pfree(digits);
    return length;
}

int64 length_of(const char* text, int length, bool exact) {
    constexpr int longest = 6;  // a control character
    if (!exact) return int64{longest} * length + 2;
    int64 size = length + 2;
    for (int i = 0; i < length; ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte < ' ')
            size += longest - 1;
        else if (byte == '"' || byte == '\\')
            ++size;
    }
    return size;
}

int64 text_size(Jsonb* value, bool exact, int64 most) {
    constexpr int separators = 4;  // ", " and ": ", or brackets
    int64 size = 0;
    JsonbIterator* iterator = JsonbIteratorInit(&value->root);
    JsonbValue part;
    for (;;) {
        const JsonbIteratorToken token = JsonbIteratorNext(&iterator, &part, false);
        if (token == WJB_DONE || size > most) return size;
        size += separators;
        if (token != WJB_KEY && token != WJB_VALUE && token != WJB_ELEM) continue;
        if (part.type == jbvString)
            size += length_of(part.val.string.val, part.val.string.len, exact);
        else if (part.type == jbvNumeric)
            size += digits_of(part.val.numeric);
    }
}

}  // namespace

int64 json_text_size(Datum value, int64 most) {
    Jsonb* json = DatumGetJsonbP(value);
    const int64 size = text_size(json, false, most);
    return size <= most / 16 ? size : text_size(json, true, most);
}

}  // namespace dag

// pawl_dag._text_size(value, most)
PAWL_FUNCTION(pawl_dag_text_size) {
    return pg::call([&] { return Int64GetDatum(dag::json_text_size(PG_GETARG_DATUM(0), PG_GETARG_INT32(1))); });
}

}  // namespace pawl
