// Seam. See input.hpp.
#include "pg/input.hpp"

extern "C" {
#include "common/jsonapi.h"
#include "utils/datetime.h"
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#endif
}

namespace pawl::pg {

#if PG_VERSION_NUM >= 160000

namespace {

bool reads(PGFunction input, const char* value, ErrorSaveContext* errors) {
    Datum result;
    errors->type = T_ErrorSaveContext;
    return DirectInputFunctionCallSafe(input, const_cast<char*>(value), InvalidOid, -1, reinterpret_cast<Node*>(errors),
                                       &result);
}

}  // namespace

bool is_jsonb(const char* value, Unreadable* why) {
    ErrorSaveContext errors = {};
    errors.details_wanted = true;
    if (reads(jsonb_in, value, &errors)) return true;
    *why = {errors.error_data->sqlerrcode, errors.error_data->detail};
    return false;
}

bool is_interval(const char* value) {
    ErrorSaveContext errors = {};
    return reads(interval_in, value, &errors);
}

#else

namespace {

// PostgreSQL 15 has no soft input errors, but the parsers below the input functions return an error code.

constexpr long most_digits = 16000;  // below what the type numeric holds on either side of the point

// The type numeric holds fewer numbers than JSON can write.
void look_at_number(void* found, char* token, JsonTokenType type) {
    if (type != JSON_TOKEN_NUMBER) return;
    const char* exponent = strpbrk(token, "eE");
    const long digits = static_cast<long>(strlen(token));
    if (digits > most_digits ||
        (exponent != nullptr && (strlen(exponent) > 8 || std::abs(atol(exponent + 1)) + digits > most_digits)))
        *static_cast<bool*>(found) = true;
}

}  // namespace

bool is_jsonb(const char* value, Unreadable* why) {
    bool out_of_range = false;
    JsonSemAction actions = {};
    actions.semstate = &out_of_range;
    actions.scalar = look_at_number;
    JsonLexContext* lexer = makeJsonLexContextCstringLen(const_cast<char*>(value), static_cast<int>(strlen(value)),
                                                         GetDatabaseEncoding(), true);
    const JsonParseErrorType error = pg_parse_json(lexer, &actions);
    if (error != JSON_SUCCESS) {
        const bool is_character = error == JSON_UNICODE_CODE_POINT_ZERO || error == JSON_UNICODE_HIGH_ESCAPE;
        *why = {is_character ? ERRCODE_UNTRANSLATABLE_CHARACTER : ERRCODE_INVALID_TEXT_REPRESENTATION,
                json_errdetail(error, lexer)};
        return false;
    }
    if (out_of_range)
        *why = {ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "A number in it is out of the range of the type numeric."};
    return !out_of_range;
}

bool is_interval(const char* value) {
    char buffer[256];
    char* fields[MAXDATEFIELDS];
    int types[MAXDATEFIELDS];
    int n;
    int kind;
    struct pg_itm_in parts = {};
    int error = ParseDateTime(value, buffer, sizeof(buffer), fields, types, MAXDATEFIELDS, &n);
    if (error == 0) error = DecodeInterval(fields, types, n, INTERVAL_FULL_RANGE, &kind, &parts);
    if (error == DTERR_BAD_FORMAT) error = DecodeISO8601Interval(const_cast<char*>(value), &kind, &parts);
    Interval interval;
    return error == 0 && kind == DTK_DELTA && itmin2interval(&parts, &interval) == 0;
}

#endif

}  // namespace pawl::pg
