// May throw and may ereport: pawl_saga._compile, which compiles the structure of a flow, and pawl_saga._ask, which
// calls a user's function.
#include "packs/saga/saga.hpp"

#include "packs/saga/follow_ups.hpp"
#include "pg/arguments.hpp"
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
    SPI_connect();
    if (SPI_execute_with_args(question->statement, 1, types, values, nulls, false, 1) != SPI_OK_SELECT ||
        SPI_processed != 1)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("a function returned no row")));
    const char* answer = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
    question->answer = answer == nullptr ? nullptr : MemoryContextStrdup(question->memory, answer);
    SPI_finish();
}

// The owner of the called function, or InvalidOid if a superuser owns it.
Oid owner_of_function(const char* function) {
    const Oid called =
        DatumGetObjectId(DirectFunctionCall1(regprocedurein, CStringGetDatum(psprintf("%s(jsonb)", function))));
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(called));
    if (!HeapTupleIsValid(tuple))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION), errmsg("function %s does not exist", function)));
    const Oid owner = reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple))->proowner;
    ReleaseSysCache(tuple);
    return superuser_arg(owner) ? InvalidOid : owner;
}

// The session's role; but in a superuser's session the role that defined the flow, because any role that may define
// flows may name any function. What a superuser defined runs with the rights of the function's owner. Follow-ups
// cannot see whether the superuser changed the flow itself or called a SECURITY DEFINER function that did.
Oid asking_role(const char* function, const char* definer) {
    const Oid role = GetOuterUserId();
    if (!superuser_arg(role)) return role;
    const Oid defined = get_role_oid(definer, true);
    if (!OidIsValid(defined))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("role \"%s\" does not exist", definer),
                        errdetail("The role defined the flow, and its deciders and controllers run with its rights.")));
    if (!superuser_arg(defined)) return defined;
    const Oid owner = owner_of_function(function);
    return OidIsValid(owner) ? owner : role;
}

// The function's changes to other flows have follow-ups of their own.
void ask(Oid role, Question* question) {
    const Following suspended = suspend_following();
    PG_TRY();
    { with_rights_of(role, put, question, Reach::confined); }
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
        ask(asking_role(function.c_str(), definer), &question);
        if (question.answer != nullptr) return PointerGetDatum(cstring_to_text(question.answer));
        fcinfo->isnull = true;
        return 0;
    });
}

}  // namespace pawl
