// May throw and may ereport: pawl.fire, pawl.fire_many and pawl.available.
#include "core/sqlstate.hpp"
#include "refusal.hpp"
#include "row_query.hpp"

namespace pawl {

namespace {

struct Request {
    Target target;
    text* event;
    Jsonb* metadata;
};

RowVersions versions(const Target& target, HeapTuple before, HeapTuple after) {
    TupleDesc row_type = target.attachment->root_descriptor;
    return {{before, row_type, nullptr}, {after, row_type, nullptr}};
}

bool fits(const BoundMachine& machine, int arrow, const text* event) {
    const text* named = machine.event_text[arrow];
    return named != nullptr && view(named) == view(event);
}

// The state an event leads to; guards decide where there are several. Raises when there is none.
core::StateId destination(const Request& request, const FoundRow& row) {
    Attachment& attachment = *request.target.attachment;
    const BoundMachine& machine = *attachment.machine;
    core::StateId only = core::no_state;
    bool several = false;
    for (std::int32_t arrow : machine.machine->leaving(row.state)) {
        if (row.state == core::no_state || !fits(machine, arrow, request.event)) continue;
        const core::StateId to = machine.machine->arrows()[arrow].to;
        several |= only != core::no_state && only != to;
        if (only == core::no_state) only = to;
    }
    if (only == core::no_state) refuse_event(attachment, row.slot, row.state, request.event);
    if (!several) return only;  // its guards are asked when the row moves

    const char* first_refusal = nullptr;
    for (std::int32_t arrow : machine.machine->leaving(row.state)) {
        if (!fits(machine, arrow, request.event)) continue;
        const core::StateId to = machine.machine->arrows()[arrow].to;
        const char* guard = nullptr;
        HeapTuple after = with_state(request.target, row.tuple, machine.state_text[to]);
        if (guards_allow(attachment, arrow, versions(request.target, row.tuple, after), &guard)) return to;
        if (first_refusal == nullptr) first_refusal = guard;
    }
    refuse_by_guard(attachment, row.slot, machine.state_text[row.state], machine.state_text[only], first_refusal);
}

void require_known_event(const Request& request) {
    const BoundMachine& machine = *request.target.attachment->machine;
    if (machine.machine->knows_event(view(request.event))) return;
    throw pg::Failure(sqlstate::unknown_object,
                      "machine \"" + std::string(machine.name) + "\" has no event \"" + std::string(view(request.event)) + "\"", {},
                      "SELECT DISTINCT event FROM pawl.transitions('" + std::string(machine.name) + "');");
}

Intent intent_of(const Request& request) {
    Intent intent = {};
    intent.root = request.target.attachment->root;
    intent.column = NameStr(request.target.attachment->column);
    intent.event = request.event;
    intent.metadata = request.metadata;
    intent.with_metadata = request.metadata != nullptr;
    return intent;
}

[[noreturn]] void no_such_row(const Target& target, const char* key) {
    ereport(ERROR, (errcode(ERRCODE_NO_DATA_FOUND), errmsg("%s has no row with key %s", target.table, key)));
}

char* keys_as_text(const Attachment& attachment, const Datum* key) {
    StringInfoData out;
    initStringInfo(&out);
    for (int i = 0; i < attachment.nkeys; ++i) appendStringInfo(&out, "%s%s", i > 0 ? ", " : "", key_text(attachment, i, key[i]));
    return attachment.nkeys == 1 ? out.data : psprintf("(%s)", out.data);
}

const char* column_argument(FunctionCallInfo fcinfo, int n) { return PG_ARGISNULL(n) ? nullptr : NameStr(*PG_GETARG_NAME(n)); }

void require(FunctionCallInfo fcinfo, int n, const char* name) {
    if (PG_ARGISNULL(n)) throw pg::Failure(ERRCODE_NULL_VALUE_NOT_ALLOWED, std::string(name) + " must not be null");
}

Request read_request(FunctionCallInfo fcinfo) {
    require(fcinfo, 0, "relation");
    require(fcinfo, 1, "key");
    require(fcinfo, 2, "event");
    Request request;
    request.target = open_target(PG_GETARG_OID(0), column_argument(fcinfo, 4));
    request.event = pg::call([&] { return PG_GETARG_TEXT_PP(2); });
    request.metadata = PG_ARGISNULL(3) ? nullptr : pg::call([&] { return PG_GETARG_JSONB_P(3); });
    require_known_event(request);
    return request;
}

// What became of one key of fire_many.
struct Outcome {
    FoundRow row;
    core::StateId to;
    ErrorData* refusal;
};

void decide(const Request& request, Outcome& outcome) {
    struct Question {
        const Request& request;
        Outcome& outcome;
    } question{request, outcome};
    // Nothing is held while a move is refused, so the error can be kept for the result without a subtransaction; guards that
    // fail by an error of their own are no refusal.
    outcome.to = core::no_state;
    outcome.refusal = pg::detail::run_caught(
        [](void* argument) {
            auto* asked = static_cast<Question*>(argument);
            asked->outcome.to = destination(asked->request, asked->outcome.row);
        },
        &question);
    if (outcome.refusal != nullptr && outcome.refusal->sqlerrcode != sqlstate::no_such_transition &&
        outcome.refusal->sqlerrcode != sqlstate::guard_refused)
        ReThrowError(outcome.refusal);
}

// One UPDATE for each state that rows go to.
void move_in_groups(const Request& request, const Datum* key_columns, Outcome* outcomes, int n) {
    const Attachment& attachment = *request.target.attachment;
    const auto& states = attachment.machine->machine->states();
    for (core::StateId to = 0; to < static_cast<core::StateId>(states.size()); ++to) {
        int moving = 0;
        for (int i = 0; i < n; ++i) moving += outcomes[i].row.tuple != nullptr && outcomes[i].to == to;
        if (moving == 0) continue;
        auto* arrays = static_cast<Datum*>(palloc(sizeof(Datum) * attachment.nkeys));
        for (int column = 0; column < attachment.nkeys; ++column) {
            ArrayType* all = DatumGetArrayTypeP(key_columns[column]);
            int16 length;
            bool by_value;
            char alignment;
            get_typlenbyvalalign(ARR_ELEMTYPE(all), &length, &by_value, &alignment);
            Datum* elements;
            bool* nulls;
            int count;
            deconstruct_array(all, ARR_ELEMTYPE(all), length, by_value, alignment, &elements, &nulls, &count);
            int kept = 0;
            for (int i = 0; i < count; ++i)
                if (outcomes[i].row.tuple != nullptr && outcomes[i].to == to) elements[kept++] = elements[i];
            arrays[column] = PointerGetDatum(construct_array(elements, kept, ARR_ELEMTYPE(all), length, by_value, alignment));
        }
        move_rows(request.target, arrays, attachment.machine->state_text[to]);
    }
}

void return_outcome(ReturnSetInfo* result, const Request& request, const char* key, const Outcome& outcome) {
    Datum values[6] = {};
    bool nulls[6] = {false, false, true, true, true, true};
    const BoundMachine& machine = *request.target.attachment->machine;
    const bool found = outcome.row.tuple != nullptr;
    const bool ok = found && outcome.refusal == nullptr;
    auto set = [&](int column, text* value) {
        values[column] = PointerGetDatum(value);
        nulls[column] = value == nullptr;
    };
    set(0, cstring_to_text(key));
    values[1] = BoolGetDatum(ok);
    if (found) set(2, outcome.row.state_text);
    if (ok) set(3, machine.state_text[outcome.to]);
    if (!found) {
        set(4, cstring_to_text(unpack_sql_state(ERRCODE_NO_DATA_FOUND)));
        set(5, cstring_to_text(psprintf("%s has no row with key %s", request.target.table, key)));
    } else if (!ok) {
        set(4, cstring_to_text(unpack_sql_state(outcome.refusal->sqlerrcode)));
        set(5, cstring_to_text(outcome.refusal->message));
    }
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum* key_of(const Attachment& attachment, const Datum* key_columns, int n) {
    auto* key = static_cast<Datum*>(palloc(sizeof(Datum) * attachment.nkeys));
    for (int i = 0; i < attachment.nkeys; ++i) {
        bool null;
        const KeyColumn& column = attachment.keys[i];
        char alignment;
        int16 length;
        bool by_value;
        get_typlenbyvalalign(column.type, &length, &by_value, &alignment);
        int index = n + 1;
        key[i] = array_get_element(key_columns[i], 1, &index, -1, length, by_value, alignment, &null);
    }
    return key;
}

text* names_array_element(const std::string& name) { return make_text(name); }

Datum text_array(const std::vector<std::string>& items) {
    auto* elements = static_cast<Datum*>(palloc(sizeof(Datum) * Max(items.size(), 1)));
    for (std::size_t i = 0; i < items.size(); ++i) elements[i] = PointerGetDatum(names_array_element(items[i]));
    return PointerGetDatum(construct_array(elements, static_cast<int>(items.size()), TEXTOID, -1, false, TYPALIGN_INT));
}

// Guards of an arrow that say no, all of them.
Datum refusing_guards(Attachment& attachment, const Target& target, int arrow, const FoundRow& row, bool* allowed) {
    ArrowCalls& calls = attachment.calls[arrow];
    *allowed = true;
    auto* elements = static_cast<Datum*>(palloc(sizeof(Datum) * Max(calls.nguards, 1)));
    int n = 0;
    if (calls.nguards > 0) {
        const core::StateId to = attachment.machine->machine->arrows()[arrow].to;
        const RowVersions row_versions = versions(target, row.tuple, with_state(target, row.tuple, attachment.machine->state_text[to]));
        for (int i = 0; i < calls.nguards; ++i)
            if (!guard_allows(attachment, arrow, i, row_versions)) elements[n++] = PointerGetDatum(cstring_to_text(calls.guards[i].name));
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
        Datum blocked_by = refusing_guards(attachment, target, arrow, row, &allowed);
        Datum values[7] = {PointerGetDatum(machine.event_text[arrow]),
                           PointerGetDatum(machine.state_text[drawn.to]),
                           BoolGetDatum(allowed),
                           blocked_by,
                           text_array(drawn.params),
                           text_array(drawn.guards),
                           text_array(drawn.notes)};
        bool nulls[7] = {machine.event_text[arrow] == nullptr, false, false, false, false, false, false};
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }
}

}  // namespace

PAWL_FUNCTION(pawl_fire) {
    const Request request = read_request(fcinfo);
    const Target& target = request.target;
    const Datum* key = read_key(*target.attachment, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_DATUM(1));
    const core::StateId to = pg::call([&] {
        SPI_connect();
        FoundRow row = find_row(target, key, true);
        if (row.tuple == nullptr) no_such_row(target, keys_as_text(*target.attachment, key));
        return destination(request, row);
    });

    Intent intent = intent_of(request);
    IntentScope scope(intent);
    return pg::call([&] {
        text* state = target.attachment->machine->state_text[to];
        if (move_row(target, key, state) == 0)
            ereport(ERROR, (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
                            errmsg("event \"%s\" moved no row of %s", text_to_cstring(request.event), target.table),
                            errdetail("A trigger of the table or a row security policy suppressed the update.")));
        SPI_finish();
        close_target(target);
        return PointerGetDatum(DatumGetTextPCopy(PointerGetDatum(state)));
    });
}

PAWL_FUNCTION(pawl_fire_many) {
    const Request request = read_request(fcinfo);
    const Target& target = request.target;
    int n = 0;
    const Datum* key_columns = read_keys(*target.attachment, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_DATUM(1), &n);
    auto* result = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
    Outcome* outcomes = pg::call([&] {
        pg::materialize(fcinfo);
        auto* made = static_cast<Outcome*>(palloc0(sizeof(Outcome) * Max(n, 1)));
        auto* found = static_cast<FoundRow*>(palloc(sizeof(FoundRow) * Max(n, 1)));
        SPI_connect();
        find_rows(target, key_columns, n, found);
        for (int i = 0; i < n; ++i) {
            made[i].row = found[i];
            if (found[i].tuple != nullptr) decide(request, made[i]);
        }
        return made;
    });

    Intent intent = intent_of(request);
    IntentScope scope(intent);
    pg::call([&] {
        move_in_groups(request, key_columns, outcomes, n);
        for (int i = 0; i < n; ++i)
            return_outcome(result, request, keys_as_text(*target.attachment, key_of(*target.attachment, key_columns, i)), outcomes[i]);
        SPI_finish();
        close_target(target);
    });
    return static_cast<Datum>(0);
}

PAWL_FUNCTION(pawl_available) {
    require(fcinfo, 0, "relation");
    require(fcinfo, 1, "key");
    const Target target = open_target(PG_GETARG_OID(0), column_argument(fcinfo, 2));
    const Datum* key = read_key(*target.attachment, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_DATUM(1));
    pg::call([&] {
        pg::materialize(fcinfo);
        SPI_connect();
        FoundRow row = find_row(target, key, false);
        if (row.tuple == nullptr) no_such_row(target, keys_as_text(*target.attachment, key));
        return_available(reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo), target, row);
        SPI_finish();
        close_target(target);
    });
    return static_cast<Datum>(0);
}

// The key of a row as texts, in the order of the binding's key columns: for functions written in SQL.
PAWL_FUNCTION(pawl_key_text) {
    require(fcinfo, 0, "relation");
    require(fcinfo, 1, "key");
    const Target target = open_target(PG_GETARG_OID(0), column_argument(fcinfo, 2));
    const Datum* key = read_key(*target.attachment, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_DATUM(1));
    return pg::call([&] {
        const Attachment& attachment = *target.attachment;
        auto* elements = static_cast<Datum*>(palloc(sizeof(Datum) * attachment.nkeys));
        for (int i = 0; i < attachment.nkeys; ++i) elements[i] = PointerGetDatum(cstring_to_text(key_text(attachment, i, key[i])));
        close_target(target);
        return PointerGetDatum(construct_array(elements, attachment.nkeys, TEXTOID, -1, false, TYPALIGN_INT));
    });
}

}  // namespace pawl
