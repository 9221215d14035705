// Seam. A function that is at work, noted by the trigger depth of its statements; triggers that these fire lie deeper.
// A note is a variable of the backend and not a setting, which any session could set.
#pragma once

#include "pg/arguments.hpp"

namespace pawl::pg {

inline int trigger_depth() {
    return call([] { return DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, static_cast<Datum>(0))); });
}

// Notes the depth of the current statements while it lives. A note of -1: nothing is at work.
class NotedDepth {
public:
    explicit NotedDepth(int& note) : note_(note), before_(note) { note = trigger_depth(); }
    ~NotedDepth() { note_ = before_; }
    NotedDepth(const NotedDepth&) = delete;
    NotedDepth& operator=(const NotedDepth&) = delete;

private:
    int& note_;
    int before_;
};

// Calls a function of the pack with the arguments of the caller, by OID: only the owner may call it otherwise. It may
// ereport.
inline Datum call_inner(FunctionCallInfo fcinfo, const char* schema, const char* name) {
    FmgrInfo called;
    fmgr_info(LookupFuncName(list_make2(makeString(pstrdup(schema)), makeString(pstrdup(name))), -1, nullptr, false),
              &called);
    fmgr_info_set_expr(fcinfo->flinfo->fn_expr, &called);  // has the types of polymorphic arguments
    LOCAL_FCINFO(inner, FUNC_MAX_ARGS);
    InitFunctionCallInfoData(*inner, &called, PG_NARGS(), fcinfo->fncollation, nullptr, fcinfo->resultinfo);
    for (int n = 0; n < PG_NARGS(); ++n) inner->args[n] = fcinfo->args[n];
    const Datum result = FunctionCallInvoke(inner);
    fcinfo->isnull = inner->isnull;
    return result;
}

}  // namespace pawl::pg
