// May ereport; owns nothing (the SQL function may throw). See context.hpp.
#include <cerrno>

#include "session/context.hpp"

#include "core/array_literal.hpp"
#include "core/trace.hpp"
#include "pg/arguments.hpp"
#include "pg/input.hpp"

namespace pawl {

int executor_level = 0;
int deferring_level = no_level;
bool restoring = false;
void (*context_set)(const char* setting, const char* value) = nullptr;

namespace {

// A setting that says what is recorded with state changes.
struct Setting {
    char* written;
    const config_generic* variable;
};
Setting processor, event, events, correlation, metadata, token, delay, traceparent, tracestate;

// The setting pawl.transaction_context.
bool only_of_transaction = false;

// The value of a setting that counts; null: empty, or of another transaction where that does not count.
const char* value_of(const Setting& setting) {
    if (setting.written == nullptr || *setting.written == '\0') return nullptr;
    // PostgreSQL keeps the former values of what this transaction has set.
    return only_of_transaction && setting.variable->stack == nullptr ? nullptr : setting.written;
}

// The list that pawl.events names, in the transaction's memory: a guard may change the setting while a list is used.
EventList* listed = nullptr;

// The attribution handed out last, and what it was made from.
Attribution* attribution = nullptr;
Oid attribution_role = InvalidOid;

void setting_changed(const char*, void*) {
    attribution = nullptr;
}

void scope_changed(bool, void*) {
    attribution = nullptr;
    listed = nullptr;
}

void events_changed(const char*, void*) {
    listed = nullptr;
}

bool check_events(char** value, void**, GucSource) {
    if (*value == nullptr || **value == '\0') return true;
    std::string_view items[max_listed_events];
    const int n = core::split_array_literal(pstrdup(*value), items, max_listed_events);
    if (n == core::malformed_array) {
        GUC_check_errmsg("pawl.events is not an array of events");
        GUC_check_errhint("SET pawl.events = '{first,second}';");
        return false;
    }
    if (n <= max_listed_events) return true;
    GUC_check_errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED);
    GUC_check_errmsg("pawl.events lists more than %d events", max_listed_events);
    return false;
}

EventList* parse_events(const char* value) {
    std::string_view items[max_listed_events];
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    auto* list = static_cast<EventList*>(palloc0(sizeof(EventList)));
    list->n = core::split_array_literal(pstrdup(value), items, max_listed_events);
    for (int i = 0; i < list->n; ++i) list->events[i] = pg::make_text(items[i]);
    MemoryContextSwitchTo(caller);
    return list;
}

Jsonb* parse_json(const char* value) {
    return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(value)));
}

bool check_metadata(char** value, void**, GucSource) {
    if (*value == nullptr || **value == '\0') return true;
    pg::Unreadable why;
    if (pg::is_jsonb(*value, &why)) return true;
    GUC_check_errcode(why.sqlstate);
    GUC_check_errmsg("pawl.metadata is not valid JSON");
    if (why.detail != nullptr) GUC_check_errdetail("%s", why.detail);
    return false;
}

bool check_token(char** value, void**, GucSource) {
    if (*value == nullptr || **value == '\0') return true;
    char* end;
    errno = 0;
    strtoll(*value, &end, 10);
    if (errno == 0 && *end == '\0') return true;
    GUC_check_errmsg("pawl.token is not an integer");
    return false;
}

bool check_traceparent(char** value, void**, GucSource) {
    if (*value == nullptr || **value == '\0' || core::is_traceparent(*value)) return true;
    GUC_check_errdetail(
        "A W3C traceparent is 00-<32 hexadecimal digits>-<16>-<2>, in lower case, and neither id is all zeros.");
    return false;
}

bool check_tracestate(char** value, void**, GucSource) {
    if (*value == nullptr || **value == '\0' || core::is_tracestate(*value)) return true;
    GUC_check_errdetail("A W3C tracestate is a list of at most 32 key=value.");
    return false;
}

void push_text(JsonbParseState** state, JsonbIteratorToken token, std::string_view value) {
    JsonbValue pushed;
    pushed.type = jbvString;
    pushed.val.string.val = const_cast<char*>(value.data());
    pushed.val.string.len = static_cast<int>(value.size());
    pushJsonbValue(state, token, &pushed);
}

// The trace by the settings, as the log stores it; null: none.
Jsonb* trace_setting() {
    const char* parent = value_of(traceparent);
    if (parent == nullptr) return nullptr;
    const char* state = value_of(tracestate);
    return trace_of(parent, state == nullptr ? "" : state);
}

Interval* parse_interval(const char* value) {
    return DatumGetIntervalP(
        DirectFunctionCall3(interval_in, CStringGetDatum(value), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
}

bool check_delay(char** value, void**, GucSource) {
    if (*value == nullptr || **value == '\0') return true;
    if (pg::is_interval(*value)) return true;
    GUC_check_errcode(ERRCODE_INVALID_DATETIME_FORMAT);
    GUC_check_errmsg("pawl.delay is not an interval");
    return false;
}

text* text_of(const Setting& setting) {
    const char* value = value_of(setting);
    return value == nullptr ? nullptr : cstring_to_text(value);
}

void define_text_setting(const char* name, const char* what, const char* more, Setting* setting,
                         GucStringCheckHook check, GucStringAssignHook assign = setting_changed) {
    DefineCustomStringVariable(name, what, more, &setting->written, "", PGC_USERSET, 0, check, assign, nullptr);
    setting->variable = pg::find_setting(name);
}

void set_for_transaction(const char* name, const char* value) {
    set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
    if (context_set != nullptr) context_set(name, value);
}

void set_for_transaction(FunctionCallInfo fcinfo, int n, const char* name) {
    if (!PG_ARGISNULL(n)) set_for_transaction(name, text_to_cstring(PG_GETARG_TEXT_PP(n)));
}

bool calls_only(Node* expression, Oid function) {
    return IsA(expression, FuncExpr) && reinterpret_cast<FuncExpr*>(expression)->funcid == function;
}

// Whether the client's statement is SELECT function(...), or SELECT * FROM function(...), and no more.
bool is_whole_statement(Oid function) {
    if (ActivePortal == nullptr || ActivePortal->commandTag != CMDTAG_SELECT || list_length(ActivePortal->stmts) != 1)
        return false;
    Plan* plan = linitial_node(PlannedStmt, ActivePortal->stmts)->planTree;
    if (plan == nullptr || plan->lefttree != nullptr) return false;
    if (IsA(plan, FunctionScan)) {
        List* functions = reinterpret_cast<FunctionScan*>(plan)->functions;
        return list_length(functions) == 1 &&
               calls_only(linitial_node(RangeTblFunction, functions)->funcexpr, function);
    }
    if (!IsA(plan, Result)) return false;
    ListCell* cell;
    foreach (cell, plan->targetlist)
        if (!calls_only(reinterpret_cast<Node*>(lfirst_node(TargetEntry, cell)->expr), function)) return false;
    return true;
}

}  // namespace

text* event_setting() {
    return text_of(event);
}

const EventList* events_setting(Asking asking) {
    const char* value = value_of(events);
    if (value == nullptr) return nullptr;
    const int own_depth = asking == Asking::trigger ? 1 : 0;
    if (DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, static_cast<Datum>(0))) > own_depth) return nullptr;
    if (listed == nullptr) listed = parse_events(value);
    return listed->n > 0 ? listed : nullptr;
}

text* processor_setting() {
    return text_of(processor);
}

// The client's token applies to its own statement, not to state changes in triggers and effects below it.
bool token_setting(int64* shown) {
    const char* value = value_of(token);
    if (value == nullptr) return false;
    if (DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, static_cast<Datum>(0))) > 1) return false;
    *shown = strtoll(value, nullptr, 10);
    return true;
}

const Interval* delay_setting() {
    const char* value = value_of(delay);
    return value == nullptr ? nullptr : parse_interval(value);
}

Attribution* current_attribution(MemoryContext context) {
    // The role that acts, not the role whose rights are used: the same inside a SECURITY DEFINER function.
    const Oid role = GetOuterUserId();
    if (attribution != nullptr && attribution_role == role) return attribution;
    MemoryContext caller = MemoryContextSwitchTo(context);
    auto* made = static_cast<Attribution*>(palloc0(sizeof(Attribution)));
    made->actor = cstring_to_text(GetUserNameFromId(role, false));
    made->processor = text_of(processor);
    made->correlation_id = text_of(correlation);
    if (const char* json = value_of(metadata)) made->metadata = parse_json(json);
    made->trace = trace_setting();
    made->metadata = with_trace(made->trace, made->metadata);
    MemoryContextSwitchTo(caller);
    attribution = made;
    attribution_role = role;
    return made;
}

Jsonb* with_trace(Jsonb* trace, Jsonb* metadata) {
    if (trace == nullptr || metadata == nullptr) return metadata == nullptr ? trace : metadata;
    if (!JB_ROOT_IS_OBJECT(metadata)) return metadata;
    return DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(trace), JsonbPGetDatum(metadata)));
}

Jsonb* trace_of(std::string_view traceparent, std::string_view tracestate) {
    if (!core::is_traceparent(traceparent)) return nullptr;
    JsonbParseState* state = nullptr;
    pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
    push_text(&state, WJB_KEY, "traceparent");
    push_text(&state, WJB_VALUE, traceparent);
    if (core::is_tracestate(tracestate)) {
        push_text(&state, WJB_KEY, "tracestate");
        push_text(&state, WJB_VALUE, tracestate);
    }
    return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, nullptr));
}

void forget_attribution() noexcept {
    attribution = nullptr;
}

void forget_events() noexcept {
    listed = nullptr;
}

void define_settings() {
    define_text_setting("pawl.processor", "Processor that does the work; recorded with every state change.",
                        "Any text, for example the name of a worker. Empty: no processor.", &processor, nullptr);
    define_text_setting(
        "pawl.event", "Event of the next state changes.",
        "Must be an event of the row's machine that leads to the new state; events that the machine does not "
        "know are ignored. Empty: any.",
        &event, nullptr);
    define_text_setting(
        "pawl.events", "Events of the state changes that one UPDATE makes, in order.",
        "An array of at most 16 events, such as {report,complete}; the last one leads to the state that the UPDATE "
        "sets. Machines that know none of them ignore it. Takes precedence over pawl.event. Empty: none.",
        &events, check_events, events_changed);
    define_text_setting("pawl.correlation_id",
                        "Identifier that ties state changes to a request; recorded with every state change.",
                        "Any text.", &correlation, nullptr);
    define_text_setting("pawl.metadata", "JSON value that is recorded with every state change.", "Empty: none.",
                        &metadata, check_metadata);
    define_text_setting("pawl.token", "Fencing token of the work that the next state changes belong to.",
                        "An integer; a write to a row with another token is rejected (PW005). Empty: no token.", &token,
                        check_token);
    define_text_setting(
        "pawl.delay", "Delay before the next retry.",
        "An interval, for example from a Retry-After header; used instead of the computed backoff, under "
        "the same cap. Empty: the backoff of the binding.",
        &delay, check_delay);
    define_text_setting("pawl.traceparent",
                        "W3C trace context of the state changes; recorded in the metadata of every state change.",
                        "00-<trace id>-<parent id>-<flags>. Empty: none.", &traceparent, check_traceparent);
    define_text_setting("pawl.tracestate", "W3C tracestate that belongs to pawl.traceparent.",
                        "A list of key=value. Empty: none.", &tracestate, check_tracestate);
    DefineCustomBoolVariable(
        "pawl.restoring", "Allows loading a dump into tables that extensions have enforced already.",
        "While it is on, no change is validated or recorded: PGOPTIONS='-c pawl.restoring=on' pg_restore ... "
        "Check the loaded rows with pawl.verify afterwards.",
        &restoring, false, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable(
        "pawl.transaction_context", "Settings count as context only in the transaction that has set them.",
        "For connection poolers: what another client has left in a session is not recorded, and shows no token. "
        "Concerns pawl.processor, event, events, correlation_id, metadata, token, delay, traceparent and tracestate.",
        &only_of_transaction, false, PGC_SUSET, 0, nullptr, scope_changed, nullptr);
    MarkGUCPrefixReserved("pawl");
}

// pawl.set_context(processor, event, correlation_id, metadata, token, delay, traceparent, tracestate)
PAWL_FUNCTION(pawl_set_context) {
    pg::call([&] {
        set_for_transaction(fcinfo, 6, "pawl.traceparent");
        // A state belongs to its parent.
        if (!PG_ARGISNULL(6) && PG_ARGISNULL(7)) set_for_transaction("pawl.tracestate", "");
        set_for_transaction(fcinfo, 7, "pawl.tracestate");
        if (!PG_ARGISNULL(4)) set_for_transaction("pawl.token", psprintf(INT64_FORMAT, PG_GETARG_INT64(4)));
        if (!PG_ARGISNULL(5))
            set_for_transaction("pawl.delay", DatumGetCString(DirectFunctionCall1(interval_out, PG_GETARG_DATUM(5))));
        set_for_transaction(fcinfo, 0, "pawl.processor");
        set_for_transaction(fcinfo, 1, "pawl.event");
        set_for_transaction(fcinfo, 2, "pawl.correlation_id");
        if (!PG_ARGISNULL(3)) {
            Jsonb* json = PG_GETARG_JSONB_P(3);
            const char* text = JsonbToCString(nullptr, &json->root, VARSIZE(json));
            set_for_transaction("pawl.metadata", strcmp(text, "null") == 0 ? "" : text);
        }
        if (!IsTransactionBlock() && is_whole_statement(fcinfo->flinfo->fn_oid))
            ereport(WARNING, (errcode(ERRCODE_NO_ACTIVE_SQL_TRANSACTION),
                              errmsg("pawl.set_context has no effect outside a transaction block"),
                              errdetail("The settings end with the transaction, which is this statement."),
                              errhint("BEGIN; SELECT pawl.set_context(...); UPDATE ...; COMMIT;")));
    });
    PG_RETURN_VOID();
}

// Reads a client's headers as a trace context; null if they are none. An invalid tracestate is dropped.
PAWL_FUNCTION(pawl_trace_of) {
    const core::Trace trace = core::read_trace(pg::view(pg::text_argument(fcinfo, 0)));
    if (trace.parent.empty()) {
        fcinfo->isnull = true;
        return static_cast<Datum>(0);
    }
    return pg::call([&] {
        Datum values[] = {PointerGetDatum(pg::make_text(trace.parent)), PointerGetDatum(pg::make_text(trace.state))};
        return PointerGetDatum(construct_array(values, 2, TEXTOID, -1, false, TYPALIGN_INT));
    });
}

}  // namespace pawl
