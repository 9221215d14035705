// May throw and may ereport: pawl.available, which tells what can happen to a row next.
#include "fire/destination.hpp"

namespace pawl {

namespace {

// What ownership or attempts have against an arrow, by a name that no guard can have.
const char* name_of(Bar bar) {
    switch (bar) {
        case Bar::nobody: case Bar::unowned: case Bar::stranger: return "pawl.owner";
        case Bar::lapsed: return "pawl.lease";
        case Bar::old_token: return "pawl.token";
        case Bar::no_attempts: return "pawl.attempts";
        case Bar::none: break;
    }
    return nullptr;
}

// What blocks an arrow: ownership or attempts, and the guards that say no, all of them.
Datum blocking(Attachment& attachment, const Target& target, int arrow, const FoundRow& row, bool* allowed) {
    ArrowCalls& calls = attachment.calls[arrow];
    auto* elements = static_cast<Datum*>(palloc(sizeof(Datum) * (calls.nguards + 1)));
    int n = 0;
    if (attachment.managed != nullptr) {
        const Bar bar = bar_of(attachment, standing_of(attachment, row.slot, acting(nullptr, {})), arrow);
        if (bar != Bar::none) elements[n++] = PointerGetDatum(cstring_to_text(name_of(bar)));
    }
    if (calls.nguards > 0) {
        const core::StateId to = attachment.machine->machine->arrows()[arrow].to;
        const HeapTuple after = with_state(target, row.tuple, attachment.machine->state_text[to]);
        const RowVersions versions{{row.tuple, attachment.root_descriptor, nullptr}, {after, attachment.root_descriptor, nullptr}};
        for (int i = 0; i < calls.nguards; ++i)
            if (!guard_allows(attachment, arrow, i, versions)) elements[n++] = PointerGetDatum(cstring_to_text(calls.guards[i].name));
    }
    *allowed = n == 0;
    return PointerGetDatum(construct_array(elements, n, TEXTOID, -1, false, TYPALIGN_INT));
}

void return_available(ReturnSetInfo* result, const Target& target, const FoundRow& row) {
    Attachment& attachment = *target.attachment;
    const BoundMachine& machine = *attachment.machine;
    if (row.state == core::no_state) return;
    for (std::int32_t arrow : machine.machine->leaving(row.state)) {
        const core::Arrow& drawn = machine.machine->arrows()[arrow];
        bool allowed;
        Datum blocked_by = blocking(attachment, target, arrow, row, &allowed);
        Datum values[7] = {PointerGetDatum(machine.event_text[arrow]),
                           PointerGetDatum(machine.state_text[drawn.to]),
                           BoolGetDatum(allowed),
                           blocked_by,
                           pg::make_text_array(drawn.params),
                           pg::make_text_array(drawn.guards),
                           pg::make_text_array(drawn.notes)};
        bool nulls[7] = {machine.event_text[arrow] == nullptr, false, false, false, false, false, false};
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }
}

}  // namespace

PAWL_FUNCTION(pawl_available) {
    pg::require(fcinfo, 0, "relation");
    pg::require(fcinfo, 1, "key");
    const Target target = open_target(PG_GETARG_OID(0), pg::name_argument(fcinfo, 2));
    const Datum* key = read_key(*target.attachment, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_DATUM(1));
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
    const Datum* key = read_key(*target.attachment, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_DATUM(1));
    return pg::call([&] {
        const Attachment& attachment = *target.attachment;
        auto* elements = static_cast<Datum*>(palloc(sizeof(Datum) * attachment.nkeys));
        for (int i = 0; i < attachment.nkeys; ++i) elements[i] = PointerGetDatum(cstring_to_text(fixed_text(attachment.keys[i].type, key[i])));
        close_target(target);
        return PointerGetDatum(construct_array(elements, attachment.nkeys, TEXTOID, -1, false, TYPALIGN_INT));
    });
}

}  // namespace pawl
