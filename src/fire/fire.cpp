// May throw and may ereport: pawl.fire and pawl.fire_many, which move rows by event.
#include "fire/destination.hpp"
#include "guard/path.hpp"
#include "pg/sqlstate.hpp"

namespace pawl {

namespace {

struct Request {
    Target target;
    text* event;              // the first, if several are listed
    const EventList* events;  // several transitions in one write; null: one
    Jsonb* metadata;
    text* processor;  // null: that of the settings
    bool has_token;
    int64 token;
};

// The events of a machine, each once, for a hint.
std::string events_of(const core::Machine& machine) {
    std::vector<std::string_view> seen;
    std::string list;
    for (const core::Transition& transition : machine.transitions()) {
        if (transition.event.empty() || std::find(seen.begin(), seen.end(), transition.event) != seen.end()) continue;
        seen.push_back(transition.event);
        if (seen.size() > 12) return list + ", ...";
        list += (list.empty() ? "\"" : ", \"") + transition.event + "\"";
    }
    return list;
}

void require_known_event(const Request& request, const text* event) {
    const BoundMachine& machine = *request.target.binding->machine;
    if (machine.machine->knows_event(view(event))) return;
    throw pg::Failure(sqlstate::unknown_object,
                      "machine \"" + std::string(machine.name) + "\" has no event \"" + std::string(view(event)) + "\"",
                      {}, "Events: " + events_of(*machine.machine) + ".", place_of(*request.target.binding));
}

// The events of the argument `events`; null: it is not given.
const EventList* read_events(FunctionCallInfo fcinfo, int argument) {
    if (PG_NARGS() <= argument || PG_ARGISNULL(argument)) return nullptr;
    return pg::call([&] {
        Datum* values;
        bool* nulls;
        int n;
        ArrayType* array = PG_GETARG_ARRAYTYPE_P(argument);
        if (ARR_NDIM(array) > 1)
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("events must be a one-dimensional array"),
                            errhint("events => '{first,second}'")));
        deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &n);
        auto* list = static_cast<EventList*>(palloc0(sizeof(EventList)));
        if (n == 0)
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("events must not be empty"),
                            errhint("Specify event => '...' for a single transition.")));
        if (n > max_listed_events)
            ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                            errmsg("events must have at most %d elements", max_listed_events),
                            errdetail("There are %d.", n), errhint("Fire them by several calls in one transaction.")));
        for (; list->n < n; ++list->n) {
            if (nulls[list->n])
                ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("events must not contain nulls"),
                                errdetail("Element %d is null.", list->n + 1)));
            list->events[list->n] = DatumGetTextPP(values[list->n]);
        }
        return list;
    });
}

// Where a row is led: the last state, or the rejection.
struct Led {
    core::StateId to;
    const Rejection* rejection;  // null: not rejected
};

Led lead_through(const Target& target, const FoundRow& row, const EventList& events, Intent& intent) {
    Binding& binding = *target.binding;
    const Row as_it_is{row.slot, row.tuple};
    Path path;
    ManagedUpdate ignored = {nullptr, {}};
    const Rejection* rejection = walk({RelationGetRelid(target.relation), binding, binding, as_it_is, as_it_is,
                                       row.state, core::no_state, events, &intent, &ignored},
                                      &path);
    if (rejection != nullptr) return {core::no_state, rejection};
    return {binding.machine->machine->transitions()[path.steps[path.n - 1].transition].to, nullptr};
}

Intent intent_of(const Request& request) {
    Intent intent = {};
    intent.root = request.target.binding->root;
    intent.column = NameStr(request.target.binding->column);
    intent.event = request.events == nullptr ? request.event : nullptr;
    intent.events = request.events;
    intent.metadata = request.metadata;
    intent.with_metadata = request.metadata != nullptr;
    intent.processor = request.processor;
    intent.has_token = request.has_token;
    intent.token = request.token;
    return intent;
}

Request read_request(FunctionCallInfo fcinfo) {
    pg::require(fcinfo, 0, "relation");
    pg::require(fcinfo, 1, "key");
    Request request;
    request.events = read_events(fcinfo, 7);
    if (request.events == nullptr) pg::require(fcinfo, 2, "event");
    if (request.events != nullptr && !PG_ARGISNULL(2))
        throw pg::Failure(ERRCODE_INVALID_PARAMETER_VALUE, "event and events cannot both be specified", {},
                          "Give event => '...' for one transition, or events => '{first,second}' for several.");
    request.target = open_target(PG_GETARG_OID(0), pg::name_argument(fcinfo, 4));
    request.event = request.events != nullptr ? const_cast<text*>(request.events->events[0])
                                              : pg::call([&] { return PG_GETARG_TEXT_PP(2); });
    request.metadata = PG_ARGISNULL(3) ? nullptr : pg::call([&] { return PG_GETARG_JSONB_P(3); });
    request.processor = PG_NARGS() <= 5 || PG_ARGISNULL(5) ? nullptr : pg::text_argument(fcinfo, 5);
    request.has_token = false;
    if (request.events == nullptr) require_known_event(request, request.event);
    for (int i = 0; request.events != nullptr && i < request.events->n; ++i)
        require_known_event(request, request.events->events[i]);
    return request;
}

// The fencing tokens given with the keys of fire_many, in their order. They are checked when the rows are locked,
// before any row moves.
struct Tokens {
    const Datum* values;  // null: no tokens were given
    const bool* nulls;

    Intent shown_for(Intent intent, int key) const {
        if (values == nullptr || nulls[key]) return intent;
        intent.has_token = true;
        intent.token = DatumGetInt64(values[key]);
        return intent;
    }
};

Tokens read_tokens(FunctionCallInfo fcinfo, int argument, int nkeys) {
    if (PG_NARGS() <= argument || PG_ARGISNULL(argument)) return {nullptr, nullptr};
    return pg::call([&] {
        Datum* values;
        bool* nulls;
        int n;
        deconstruct_array(PG_GETARG_ARRAYTYPE_P(argument), INT8OID, 8, true, TYPALIGN_DOUBLE, &values, &nulls, &n);
        if (n != nkeys)
            ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR), errmsg("%d keys, but %d tokens", nkeys, n),
                            errdetail("Each token belongs to the key at the same position; null means no token.")));
        return Tokens{values, nulls};
    });
}

// The outcome for one key of fire_many.
struct KeyResult {
    FoundRow row;
    core::StateId to;
    const Rejection* rejection;  // null: not rejected
    bool moved;
};

// A rejection is reported in the row's result. Any other error, of a guard or of an output function, ends the call.
void decide(const Request& request, Intent intent, KeyResult& outcome) {
    if (request.events != nullptr && outcome.row.state != core::no_state) {
        const Led led = lead_through(request.target, outcome.row, *request.events, intent);
        outcome.to = led.to;
        outcome.rejection = led.rejection;
        return;
    }
    const Destination destination = look_for_destination(request.target, request.event, outcome.row, &intent, true);
    outcome.to = destination.to;
    if (outcome.to != core::no_state) return;
    auto* rejection = static_cast<Rejection*>(palloc(sizeof(Rejection)));
    *rejection = rejected_at(request.target, request.event, outcome.row, destination);
    outcome.rejection = rejection;
}

// The keys that go to one state, one array a key column, and their indexes in the list of keys.
struct Group {
    Datum* arrays;
    int* members;
    int n;
};

bool goes_to(const KeyResult& outcome, core::StateId to) {
    return outcome.row.tuple != nullptr && outcome.row.same_as < 0 && outcome.rejection == nullptr && outcome.to == to;
}

Group group_of(const Binding& binding, const Datum* key_columns, const KeyResult* outcomes, int n, core::StateId to) {
    Group group = {};
    group.members = static_cast<int*>(palloc(sizeof(int) * Max(n, 1)));
    for (int i = 0; i < n; ++i)
        if (goes_to(outcomes[i], to)) group.members[group.n++] = i;
    if (group.n == 0) return group;
    group.arrays = static_cast<Datum*>(palloc(sizeof(Datum) * binding.nkeys));
    for (int column = 0; column < binding.nkeys; ++column) {
        ArrayType* all = DatumGetArrayTypeP(key_columns[column]);
        int16 length;
        bool by_value;
        char alignment;
        get_typlenbyvalalign(ARR_ELEMTYPE(all), &length, &by_value, &alignment);
        Datum* elements;
        bool* nulls;
        int count;
        deconstruct_array(all, ARR_ELEMTYPE(all), length, by_value, alignment, &elements, &nulls, &count);
        for (int i = 0; i < group.n; ++i) elements[i] = elements[group.members[i]];
        group.arrays[column] =
            PointerGetDatum(construct_array(elements, group.n, ARR_ELEMTYPE(all), length, by_value, alignment));
    }
    return group;
}

// One UPDATE for each target state.
void move_in_groups(const Request& request, const Datum* key_columns, KeyResult* outcomes, int n) {
    const Binding& binding = *request.target.binding;
    const auto& states = binding.machine->machine->states();
    for (core::StateId to = 0; to < static_cast<core::StateId>(states.size()); ++to) {
        const Group group = group_of(binding, key_columns, outcomes, n, to);
        if (group.n == 0) continue;
        auto* moved = static_cast<bool*>(palloc0(sizeof(bool) * group.n));
        move_rows(request.target, group.arrays, binding.machine->state_text[to], moved);
        for (int i = 0; i < group.n; ++i) outcomes[group.members[i]].moved = moved[i];
    }
}

void return_outcome(ReturnSetInfo* result, const Request& request, const char* key, const KeyResult& outcome) {
    Datum values[6] = {};
    bool nulls[6] = {false, false, true, true, true, true};
    const BoundMachine& machine = *request.target.binding->machine;
    const bool found = outcome.row.tuple != nullptr;
    const bool ok = found && outcome.moved;
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
    } else if (outcome.rejection != nullptr) {
        set(4, cstring_to_text(unpack_sql_state(outcome.rejection->sqlstate)));
        set(5, cstring_to_text(outcome.rejection->message));
    } else if (!ok) {
        set(4, cstring_to_text(unpack_sql_state(ERRCODE_TRIGGERED_ACTION_EXCEPTION)));
        set(5, cstring_to_text(psprintf("event \"%s\" changed no row of %s", text_to_cstring(request.event),
                                        request.target.table)));
    }
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum* key_of(const Binding& binding, const Datum* key_columns, int n) {
    auto* key = static_cast<Datum*>(palloc(sizeof(Datum) * binding.nkeys));
    for (int i = 0; i < binding.nkeys; ++i) {
        bool null;
        const KeyColumn& column = binding.keys[i];
        char alignment;
        int16 length;
        bool by_value;
        get_typlenbyvalalign(column.type, &length, &by_value, &alignment);
        int index = n + 1;
        key[i] = array_get_element(key_columns[i], 1, &index, -1, length, by_value, alignment, &null);
    }
    return key;
}

}  // namespace

PAWL_FUNCTION(pawl_fire) {
    Request request = read_request(fcinfo);
    if (PG_NARGS() > 6 && !PG_ARGISNULL(6)) {
        request.has_token = true;
        request.token = PG_GETARG_INT64(6);
    }
    const Target& target = request.target;
    const Datum* key = read_key(*target.binding, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_DATUM(1));
    Intent intent = intent_of(request);
    const core::StateId to = pg::call([&] {
        SPI_connect();
        FoundRow row = find_row(target, key, true);
        if (row.tuple == nullptr) no_such_row(target, key);
        intent.at = GetCurrentTimestamp();
        if (request.events == nullptr || row.state == core::no_state)
            return find_destination(target, request.event, row, &intent);
        const Led led = lead_through(target, row, *request.events, intent);
        if (led.rejection != nullptr) raise(*target.binding, *led.rejection);
        return led.to;
    });

    IntentScope scope(intent);
    return pg::call([&] {
        text* state = target.binding->machine->state_text[to];
        if (move_row(target, key, state) == 0)
            ereport(ERROR,
                    (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
                     errmsg("event \"%s\" changed no row of %s", text_to_cstring(request.event), target.table),
                     errdetail("A trigger, a rule or a row security policy of the table suppressed the update.")));
        SPI_finish();
        close_target(target);
        return PointerGetDatum(DatumGetTextPCopy(PointerGetDatum(state)));
    });
}

PAWL_FUNCTION(pawl_fire_many) {
    const Request request = read_request(fcinfo);
    const Target& target = request.target;
    int n = 0;
    Intent intent = intent_of(request);
    const Datum* key_columns =
        read_keys(*target.binding, get_fn_expr_argtype(fcinfo->flinfo, 1), PG_GETARG_DATUM(1), &n);
    auto* result = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
    const Tokens tokens = read_tokens(fcinfo, 6, n);
    KeyResult* outcomes = pg::call([&] {
        pg::materialize(fcinfo);
        auto* made = static_cast<KeyResult*>(palloc0(sizeof(KeyResult) * Max(n, 1)));
        auto* found = static_cast<FoundRow*>(palloc(sizeof(FoundRow) * Max(n, 1)));
        SPI_connect();
        find_rows(target, key_columns, n, found);
        intent.at = GetCurrentTimestamp();
        for (int i = 0; i < n; ++i) {
            made[i].row = found[i];
            if (found[i].tuple != nullptr && found[i].same_as < 0)
                decide(request, tokens.shown_for(intent, i), made[i]);
        }
        return made;
    });

    intent.any_token = true;  // the token of every row has been checked above
    IntentScope scope(intent);
    pg::call([&] {
        move_in_groups(request, key_columns, outcomes, n);
        for (int i = 0; i < n; ++i)
            return_outcome(result, request, describe_key(*target.binding, key_of(*target.binding, key_columns, i)),
                           outcomes[outcomes[i].row.same_as < 0 ? i : outcomes[i].row.same_as]);
        SPI_finish();
        close_target(target);
    });
    return static_cast<Datum>(0);
}

}  // namespace pawl
