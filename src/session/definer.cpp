// May throw and may ereport. See definer.hpp; also pawl.call_as_definer and pawl.may_act_as.
#include "session/definer.hpp"

#include "pg/arguments.hpp"
#include "pg/texts.hpp"
#include "session/rights.hpp"

extern "C" {
#include "optimizer/cost.h"
#include "utils/plancache.h"
}

namespace pawl {

namespace {

Oid owner_of_function(Oid function) {
    HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
    if (!HeapTupleIsValid(tuple))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION), errmsg("function with OID %u does not exist", function)));
    const Oid owner = reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple))->proowner;
    ReleaseSysCache(tuple);
    return owner;
}

struct Call {
    const char* statement;
    int arguments;
    Oid types[FUNC_MAX_ARGS];
    Datum values[FUNC_MAX_ARGS];
    char nulls[FUNC_MAX_ARGS];
    Oid result_type;
    Datum result;
    bool is_null;
};

struct PlanKind {
    const char* setting;
    const bool* is_on;
};
constexpr PlanKind plan_kinds[] = {
    {"enable_bitmapscan", &enable_bitmapscan}, {"enable_hashjoin", &enable_hashjoin},
    {"enable_mergejoin", &enable_mergejoin},   {"enable_nestloop", &enable_nestloop},
    {"enable_seqscan", &enable_seqscan},       {"enable_sort", &enable_sort},
};

void reset(const char* setting) {
    set_config_option(setting, nullptr, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

// What statements say of the state changes that they make.
constexpr const char* context_settings[] = {"pawl.processor", "pawl.event",          "pawl.events",
                                            "pawl.token",     "pawl.correlation_id", "pawl.metadata",
                                            "pawl.delay",     "pawl.traceparent",    "pawl.tracestate"};
constexpr int ncontext_settings = lengthof(context_settings);

const char* value_of_setting(const char* name) {
    const char* value = GetConfigOption(name, true, false);
    return value == nullptr ? "" : value;
}

void save_context(char** values) {
    for (int i = 0; i < ncontext_settings; ++i) values[i] = pstrdup(value_of_setting(context_settings[i]));
}

// Until the transaction ends: what a function says of its own state changes is not said of those after it.
void restore_context(char** values) {
    for (int i = 0; i < ncontext_settings; ++i)
        if (strcmp(value_of_setting(context_settings[i]), values[i]) != 0)
            set_config_option(context_settings[i], values[i], PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
                              false);
}

// The result is copied into the memory context of the caller.
void run(void* argument) {
    auto* call = static_cast<Call*>(argument);
    char* context[ncontext_settings];
    save_context(context);
    const int settings = NewGUCNestLevel();
    reset_planner_settings();
    SPI_connect();
    if (SPI_execute_with_args(call->statement, call->arguments, call->types, call->values, call->nulls, false, 2) !=
            SPI_OK_SELECT ||
        SPI_processed != 1 || SPI_tuptable->tupdesc->natts != 1 ||
        SPI_gettypeid(SPI_tuptable->tupdesc, 1) != call->result_type)
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("a statement must return one row with one column of type %s",
                               format_type_be(call->result_type))));
    call->result = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &call->is_null);
    if (!call->is_null) {
        int16 length;
        bool by_value;
        get_typlenbyval(call->result_type, &length, &by_value);
        call->result = SPI_datumTransfer(call->result, by_value, length);
    }
    SPI_finish();
    AtEOXact_GUC(true, settings);  // what else the function has set stays
    restore_context(context);
}

}  // namespace

void reset_planner_settings() {
    for (const PlanKind& kind : plan_kinds)
        if (!*kind.is_on) reset(kind.setting);
    if (plan_cache_mode != PLAN_CACHE_MODE_AUTO) reset("plan_cache_mode");
}

bool may_call_for(Oid role, const char* definer) {
    const Oid defined = get_role_oid(definer, true);
    return !OidIsValid(defined) || pg::can_become(defined, role) || pg::can_become(role, defined);
}

Oid role_for_definer(Oid role, const char* definer, Oid function) {
    const Oid defined = get_role_oid(definer, true);
    if (!OidIsValid(defined))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("role \"%s\" does not exist", definer),
                        errdetail("Functions that the role named in a definition run with its rights.")));
    if (superuser_arg(role) && superuser_arg(defined)) {
        const Oid owner = owner_of_function(function);
        return superuser_arg(owner) ? role : owner;
    }
    if (pg::can_become(defined, role)) return role;
    if (pg::can_become(role, defined)) return defined;
    const char* session = GetUserNameFromId(role, false);
    ereport(ERROR,
            (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
             errmsg("role \"%s\" cannot run functions that role \"%s\" named", session, definer),
             errdetail("They would run with rights that one of the two roles does not have."),
             errhint("grant %s to %s; or the reverse, which lets %s use the rights of %s", quote_identifier(definer),
                     quote_identifier(session), quote_identifier(definer), quote_identifier(session))));
}

// pawl.call_as_definer(definer, function, statement, result, arguments...)
PAWL_FUNCTION(pawl_call_as_definer) {
    pg::require(fcinfo, 0, "definer");
    pg::require(fcinfo, 1, "function");
    pg::require(fcinfo, 2, "statement");
    return pg::call([&]() -> Datum {
        constexpr int first = 4;
        if (get_fn_expr_variadic(fcinfo->flinfo))
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("VARIADIC arguments are not supported")));
        Call call = {};
        call.statement = text_to_cstring(PG_GETARG_TEXT_PP(2));
        call.arguments = PG_NARGS() - first;
        for (int i = 0; i < call.arguments; ++i) {
            call.types[i] = get_fn_expr_argtype(fcinfo->flinfo, first + i);
            call.values[i] = PG_GETARG_DATUM(first + i);
            call.nulls[i] = PG_ARGISNULL(first + i) ? 'n' : ' ';
        }
        call.result_type = get_fn_expr_rettype(fcinfo->flinfo);
        const Oid user = GetUserId();
        const Oid role = role_for_definer(user, NameStr(*PG_GETARG_NAME(0)), PG_GETARG_OID(1));
        if (role == user)
            run(&call);
        else
            with_rights_of(role, run, &call, Reach::confined_by_policies);
        fcinfo->isnull = call.is_null;
        return call.result;
    });
}

// pawl.may_act_as(role)
PAWL_FUNCTION(pawl_may_act_as) {
    pg::require(fcinfo, 0, "role");
    return pg::call([&] {
        const Oid role = get_role_oid(NameStr(*PG_GETARG_NAME(0)), true);
        return BoolGetDatum(OidIsValid(role) ? pg::can_become(GetUserId(), role) : superuser());
    });
}

}  // namespace pawl
