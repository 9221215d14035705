// May ereport; owns nothing. See functions.hpp.
#include "guard/functions.hpp"

namespace pawl {

namespace {

// The row in the root table's row type, the argument type of guards and effects.
NullableDatum as_root_row(const Binding& binding, const RowVersion& version) {
    if (version.tuple == nullptr) return {static_cast<Datum>(0), true};
    HeapTuple tuple =
        version.to_root == nullptr ? version.tuple : execute_attr_map_tuple(version.tuple, version.to_root);
    return {heap_copy_tuple_as_datum(tuple, binding.root_descriptor), false};
}

// Both arguments, converted at most once for all functions of a row.
struct Arguments {
    const Binding& binding;
    const RowVersions& row;
    bool ready = false;
    NullableDatum before = {};
    NullableDatum after = {};

    void make() {
        if (ready) return;
        before = as_root_row(binding, row.before);
        after = as_root_row(binding, row.after);
        ready = true;
    }
};

Datum invoke(FmgrInfo* function, const Arguments& arguments, bool* null) {
    LOCAL_FCINFO(fcinfo, 2);
    InitFunctionCallInfoData(*fcinfo, function, 2, InvalidOid, nullptr, nullptr);
    fcinfo->args[0] = arguments.before;
    fcinfo->args[1] = arguments.after;
    Datum result = FunctionCallInvoke(fcinfo);
    *null = fcinfo->isnull;
    return result;
}

// An effect may update rows that have the same effect. A SQL function called again would continue the outer call's
// statements, so a nested call has a state of its own.
Datum invoke_nested(const Call& call, const Arguments& arguments, bool* null) {
    FmgrInfo function;
    fmgr_info(call.function.fn_oid, &function);
    fmgr_info_set_expr(call.function.fn_expr, &function);
    return invoke(&function, arguments, null);
}

// The state that a function keeps between calls has its own memory context. After an error, a SQL function called again
// in the same transaction would continue in the middle. So its state is discarded before that call, after the rollback.
void make_ready(Call& call) {
    if (call.memory == nullptr) {
        MemoryContext member = GetMemoryChunkContext(const_cast<char*>(call.name));
        call.memory = AllocSetContextCreate(member, "pawl function", ALLOCSET_SMALL_SIZES);
        call.function.fn_mcxt = call.memory;
    } else if (call.broken) {
        call.function.fn_extra = nullptr;
        MemoryContextReset(call.memory);
    }
    call.broken = false;
}

// Functions run with the caller's rights, as if the caller had called them.
Datum invoke(Call& call, Arguments& arguments, bool* null) {
    if (!pg::may_execute(call.function.fn_oid, GetUserId()))
        aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, call.name);
    arguments.make();
    *null = true;
    if (call.function.fn_strict && (arguments.before.isnull || arguments.after.isnull)) return static_cast<Datum>(0);
    if (call.running) return invoke_nested(call, arguments, null);
    make_ready(call);
    Datum result;
    call.running = true;
    PG_TRY();
    { result = invoke(&call.function, arguments, null); }
    PG_CATCH();
    {
        call.running = false;
        call.broken = true;
        PG_RE_THROW();
    }
    PG_END_TRY();
    call.running = false;
    return result;
}

bool says_yes(Call& guard, Arguments& arguments) {
    bool null;
    Datum allowed = invoke(guard, arguments, &null);
    return !null && DatumGetBool(allowed);
}

bool guards_allow(Binding& binding, int transition, Arguments& arguments, const char** rejected_by) {
    TransitionCalls& calls = binding.calls[transition];
    for (int i = 0; i < calls.nguards; ++i) {
        if (says_yes(calls.guards[i], arguments)) continue;
        *rejected_by = calls.guards[i].name;
        return false;
    }
    return true;
}

}  // namespace

bool guards_allow(Binding& binding, int transition, const RowVersions& row, const char** rejected_by) {
    Arguments arguments{binding, row};
    return guards_allow(binding, transition, arguments, rejected_by);
}

bool guard_allows(Binding& binding, int transition, int guard, const RowVersions& row) {
    Arguments arguments{binding, row};
    return says_yes(binding.calls[transition].guards[guard], arguments);
}

void run_effects(Binding& binding, int transition, const RowVersions& row) {
    TransitionCalls& calls = binding.calls[transition];
    Arguments arguments{binding, row};
    for (int i = 0; i < calls.neffects; ++i) {
        bool null;
        invoke(calls.effects[i], arguments, &null);
    }
}

}  // namespace pawl
