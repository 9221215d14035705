// May throw and may ereport: pawl_saga._compile, which compiles the structure of a flow, and pawl_saga._ask, which
// calls a user's function.
#include "packs/saga/saga.hpp"

#include "packs/saga/following.hpp"
#include "pg/arguments.hpp"
#include "session/definer.hpp"
#include "session/rights.hpp"

namespace pawl {

PAWL_FUNCTION(pawl_saga_compile) {
    pg::require(fcinfo, 0, "structure");
    const std::string structure(pg::view(pg::text_argument(fcinfo, 0)));
    const core::Json json = core::read_json(structure);
    const core::saga::Item item = core::saga::read_structure(json);
    const std::string graph = core::saga::write(core::saga::compile(item));
    return pg::call([&] { return PointerGetDatum(pg::make_text(graph)); });
}

namespace {

struct Question {
    const char* statement;
    Datum argument;
    bool no_argument;
    MemoryContext memory;  // of the answer
    char* answer;
};

void put(void* argument) {
    auto* question = static_cast<Question*>(argument);
    Oid types[] = {JSONBOID};
    Datum values[] = {question->argument};
    const char nulls[] = {question->no_argument ? 'n' : ' ', '\0'};
    reset_planner_settings();
    SPI_connect();
    if (SPI_execute_with_args(question->statement, 1, types, values, nulls, false, 1) != SPI_OK_SELECT ||
        SPI_processed != 1)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("a function returned no row")));
    const char* answer = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
    question->answer = answer == nullptr ? nullptr : MemoryContextStrdup(question->memory, answer);
    SPI_finish();
}

Oid function_of(const char* function) {
    return DatumGetObjectId(DirectFunctionCall1(regprocedurein, CStringGetDatum(psprintf("%s(jsonb)", function))));
}

// The function's changes to other flows have follow-ups of their own.
void ask(Oid role, Question* question) {
    const Following suspended = suspend_following();
    PG_TRY();
    { with_rights_of(role, put, question, Reach::confined_by_policies); }
    PG_FINALLY();
    { resume_following(suspended); }
    PG_END_TRY();
}

}  // namespace

// In a security-restricted operation the session's role did not ask for anything: a table's owner did.
PAWL_FUNCTION(pawl_saga_ask) {
    pg::require(fcinfo, 0, "function");
    pg::require(fcinfo, 2, "definer");
    const std::string function(pg::view(pg::text_argument(fcinfo, 0)));
    const char* definer = NameStr(*PG_GETARG_NAME(2));
    const std::string statement = "SELECT " + function + "($1)";
    Question question = {statement.c_str(), PG_GETARG_DATUM(1), PG_ARGISNULL(1), CurrentMemoryContext, nullptr};
    return pg::call([&]() -> Datum {
        if (InSecurityRestrictedOperation())
            ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                            errmsg("cannot call a decider or controller within security-restricted operation")));
        // Follow-ups run as the owner of the extension. They cannot see whether the session's role changed the flow
        // itself or called a SECURITY DEFINER function that did.
        ask(role_for_definer(GetOuterUserId(), definer, function_of(function.c_str())), &question);
        if (question.answer != nullptr) return PointerGetDatum(cstring_to_text(question.answer));
        fcinfo->isnull = true;
        return 0;
    });
}

// pawl_saga._may_ask(definer)
PAWL_FUNCTION(pawl_saga_may_ask) {
    pg::require(fcinfo, 0, "definer");
    return pg::call([&] { return BoolGetDatum(may_call_for(GetOuterUserId(), NameStr(*PG_GETARG_NAME(0)))); });
}

}  // namespace pawl
