// May throw and may ereport: pawl.available, which lists the events that a row can take next, and keys of rows for
// functions in PL/pgSQL.
#include "fire/destination.hpp"
#include "pg/noted_depth.hpp"

namespace pawl {

namespace {

// A fault of ownership or attempts, as a name that no guard can have.
const char* name_of(OwnershipFault fault) {
    switch (fault) {
        case OwnershipFault::no_processor:
        case OwnershipFault::unowned:
        case OwnershipFault::not_owner:
            return "pawl.owner";
        case OwnershipFault::expired:
            return "pawl.lease";
        case OwnershipFault::stale_token:
            return "pawl.token";
        case OwnershipFault::no_attempts:
            return "pawl.attempts";
        case OwnershipFault::none:
            break;
    }
    return nullptr;
}

// What blocks a transition: ownership or attempts, and all guards that reject it.
Datum blocking(Binding& binding, const Target& target, int transition, const FoundRow& row, bool* allowed) {
    TransitionCalls& calls = binding.calls[transition];
    auto* elements = static_cast<Datum*>(palloc(sizeof(Datum) * (calls.nguards + 1)));
    int n = 0;
    if (binding.managed != nullptr) {
        const OwnershipFault fault =
            ownership_fault(binding, ownership_of(binding, row.slot, acting(nullptr, {})), transition);
        if (fault != OwnershipFault::none) elements[n++] = PointerGetDatum(cstring_to_text(name_of(fault)));
    }
    if (calls.nguards > 0) {
        const core::StateId to = binding.machine->machine->transitions()[transition].to;
        const HeapTuple after = with_state(target, row.tuple, binding.machine->state_text[to]);
        const RowVersions versions{{row.tuple, binding.row_descriptor, binding.to_root},
                                   {after, binding.row_descriptor, binding.to_root}};
        for (int i = 0; i < calls.nguards; ++i)
            if (!guard_allows(binding, transition, i, versions))
                elements[n++] = PointerGetDatum(cstring_to_text(calls.guards[i].name));
    }
    *allowed = n == 0;
    return PointerGetDatum(construct_array(elements, n, TEXTOID, -1, false, TYPALIGN_INT));
}

void return_available(ReturnSetInfo* result, const Target& target, const FoundRow& row) {
    Binding& binding = *target.binding;
    const BoundMachine& machine = *binding.machine;
    if (row.state == core::no_state) return;
    for (std::int32_t transition : machine.machine->leaving(row.state)) {
        const core::Transition& drawn = machine.machine->transitions()[transition];
        bool allowed;
        Datum blocked_by = blocking(binding, target, transition, row, &allowed);
        Datum values[7] = {PointerGetDatum(machine.event_text[transition]),
                           PointerGetDatum(machine.state_text[drawn.to]),
                           BoolGetDatum(allowed),
                           blocked_by,
                           pg::make_text_array(drawn.params),
                           pg::make_text_array(drawn.guards),
                           pg::make_text_array(drawn.notes)};
        bool nulls[7] = {machine.event_text[transition] == nullptr, false, false, false, false, false, false};
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }
}

}  // namespace

PAWL_FUNCTION(pawl_available) {
    pg::require(fcinfo, 0, "relation");
    pg::require(fcinfo, 1, "key");
    const Target target = open_target(PG_GETARG_OID(0), pg::name_argument(fcinfo, 2));
    const Datum* key = read_key(*target.binding, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_DATUM(1));
    pg::call([&] {
        pg::materialize(fcinfo);
        SPI_connect();
        FoundRow row = find_row(target, key, false);
        if (row.tuple == nullptr) no_such_row(target, key);
        return_available(reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo), target, row);
        SPI_finish();
        close_target(target);
    });
    return static_cast<Datum>(0);
}

PAWL_FUNCTION(pawl_equality) {
    return pg::call([&] { return CStringGetTextDatum(equality(PG_GETARG_OID(0))); });
}

// The key of a row as texts, in the order of the binding's key columns: for functions written in SQL.
PAWL_FUNCTION(pawl_key_text) {
    pg::require(fcinfo, 0, "relation");
    pg::require(fcinfo, 1, "key");
    const Target target = open_target(PG_GETARG_OID(0), pg::name_argument(fcinfo, 2));
    const Datum* key = read_key(*target.binding, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_DATUM(1));
    return pg::call([&] {
        const Binding& binding = *target.binding;
        auto* elements = static_cast<Datum*>(palloc(sizeof(Datum) * binding.nkeys));
        for (int i = 0; i < binding.nkeys; ++i)
            elements[i] = PointerGetDatum(cstring_to_text(fixed_text(binding.keys[i].type, key[i])));
        close_target(target);
        return PointerGetDatum(construct_array(elements, binding.nkeys, TEXTOID, -1, false, TYPALIGN_INT));
    });
}

// What pawl.history and others do is in PL/pgSQL, which does not compile a function for an array of records.
PAWL_FUNCTION(pawl_by_key) {
    if (get_fn_expr_argtype(fcinfo->flinfo, 1) == RECORDARRAYOID)
        throw pg::Failure(ERRCODE_DATATYPE_MISMATCH, "key must be of one row, not an array of records", {},
                          "Give the key as a value, as row(a, b) or as an array of texts.");
    return pg::call(
        [&] { return pg::call_inner(fcinfo, "pawl", psprintf("_%s_by_key", get_func_name(fcinfo->flinfo->fn_oid))); });
}

}  // namespace pawl
