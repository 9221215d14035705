// May throw and may ereport: pawl.raise, the errors of functions in SQL and PL/pgSQL.
#include "pg/arguments.hpp"
#include "pg/sqlstate.hpp"
#include "session/observer.hpp"

namespace pawl {

namespace {

bool is_error_code(std::string_view code) {
    for (char c : code)
        if ((c < '0' || c > '9') && (c < 'A' || c > 'Z')) return false;
    // classes 00 to 02 are success, warning and no data
    return code.size() == 5 && !(code[0] == '0' && code[1] <= '2');
}

// Counts a rejection of class PW; the codes of this class that the project does not have are not counted.
void count(int code) {
    switch (code) {
#define PAWL_SQLSTATE(text, name, meaning) case sqlstate::name:
#include "../core/sqlstate.def"
#undef PAWL_SQLSTATE
        rejected(code, nullptr);
        default:
            break;
    }
}

char* optional_text(FunctionCallInfo fcinfo, int n) {
    return PG_ARGISNULL(n) ? nullptr : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

}  // namespace

PAWL_FUNCTION(pawl_raise) {
    pg::require(fcinfo, 0, "code");
    pg::require(fcinfo, 1, "message");
    const std::string_view code = pg::view(pg::text_argument(fcinfo, 0));
    if (!is_error_code(code))
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "code must be the SQLSTATE of an error", {}, "'22023'");
    const int packed = MAKE_SQLSTATE(code[0], code[1], code[2], code[3], code[4]);
    count(packed);
    pg::call([&] {
        const char* detail = optional_text(fcinfo, 2);
        const char* hint = optional_text(fcinfo, 3);
        ereport(ERROR,
                (errcode(packed), errmsg_internal("%s", optional_text(fcinfo, 1)),
                 detail == nullptr ? 0 : errdetail_internal("%s", detail), hint == nullptr ? 0 : errhint("%s", hint)));
    });
    return static_cast<Datum>(0);
}

}  // namespace pawl
