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

namespace {

char* processor_value = nullptr;
char* event_value = nullptr;
char* events_value = nullptr;
char* correlation_value = nullptr;
char* metadata_value = nullptr;
char* token_value = nullptr;
char* delay_value = nullptr;
char* traceparent_value = nullptr;
char* tracestate_value = nullptr;

// The list that pawl.events names, in the transaction's memory: a guard may change the setting while a list is used.
EventList* listed = nullptr;

// The attribution handed out last, and what it was made from.
Attribution* attribution = nullptr;
Oid attribution_role = InvalidOid;

void setting_changed(const char*, void*) {
    attribution = nullptr;
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
    if (traceparent_value == nullptr || *traceparent_value == '\0') return nullptr;
    return trace_of(traceparent_value, tracestate_value == nullptr ? "" : tracestate_value);
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

text* text_or_null(const char* value) {
    return value == nullptr || *value == '\0' ? nullptr : cstring_to_text(value);
}

void define_text_setting(const char* name, const char* what, const char* more, char** variable,
                         GucStringCheckHook check) {
    DefineCustomStringVariable(name, what, more, variable, "", PGC_USERSET, 0, check, setting_changed, nullptr);
}

}  // namespace

text* event_setting() {
    return text_or_null(event_value);
}

const EventList* events_setting(Asking asking) {
    if (events_value == nullptr || *events_value == '\0') return nullptr;
    const int own_depth = asking == Asking::trigger ? 1 : 0;
    if (DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, static_cast<Datum>(0))) > own_depth) return nullptr;
    if (listed == nullptr) listed = parse_events(events_value);
    return listed->n > 0 ? listed : nullptr;
}

text* processor_setting() {
    return text_or_null(processor_value);
}

// The client's token applies to its own statement, not to state changes in triggers and effects below it.
bool token_setting(int64* token) {
    if (token_value == nullptr || *token_value == '\0') return false;
    if (DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, static_cast<Datum>(0))) > 1) return false;
    *token = strtoll(token_value, nullptr, 10);
    return true;
}

const Interval* delay_setting() {
    return delay_value == nullptr || *delay_value == '\0' ? nullptr : parse_interval(delay_value);
}

Attribution* current_attribution(MemoryContext context) {
    // The role that acts, not the role whose rights are used: the same inside a SECURITY DEFINER function.
    const Oid role = GetOuterUserId();
    if (attribution != nullptr && attribution_role == role) return attribution;
    MemoryContext caller = MemoryContextSwitchTo(context);
    auto* made = static_cast<Attribution*>(palloc0(sizeof(Attribution)));
    made->actor = cstring_to_text(GetUserNameFromId(role, false));
    made->processor = text_or_null(processor_value);
    made->correlation_id = text_or_null(correlation_value);
    if (metadata_value != nullptr && *metadata_value != '\0') made->metadata = parse_json(metadata_value);
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
                        "Any text, for example the name of a worker. Empty: no processor.", &processor_value, nullptr);
    define_text_setting(
        "pawl.event", "Event of the next state changes.",
        "Must be an event of the row's machine that leads to the new state; events that the machine does not "
        "know are ignored. Empty: any.",
        &event_value, nullptr);
    DefineCustomStringVariable(
        "pawl.events", "Events of the state changes that one UPDATE makes, in order.",
        "An array of at most 16 events, such as {report,complete}; the last one leads to the state that the UPDATE "
        "sets. Machines that know none of them ignore it. Takes precedence over pawl.event. Empty: none.",
        &events_value, "", PGC_USERSET, 0, check_events, events_changed, nullptr);
    define_text_setting("pawl.correlation_id",
                        "Identifier that ties state changes to a request; recorded with every state change.",
                        "Any text.", &correlation_value, nullptr);
    define_text_setting("pawl.metadata", "JSON value that is recorded with every state change.", "Empty: none.",
                        &metadata_value, check_metadata);
    define_text_setting("pawl.token", "Fencing token of the work that the next state changes belong to.",
                        "An integer; a write to a row with another token is rejected (PW005). Empty: no token.",
                        &token_value, check_token);
    define_text_setting(
        "pawl.delay", "Delay before the next retry.",
        "An interval, for example from a Retry-After header; used instead of the computed backoff, under "
        "the same cap. Empty: the backoff of the binding.",
        &delay_value, check_delay);
    define_text_setting("pawl.traceparent",
                        "W3C trace context of the state changes; recorded in the metadata of every state change.",
                        "00-<trace id>-<parent id>-<flags>. Empty: none.", &traceparent_value, check_traceparent);
    define_text_setting("pawl.tracestate", "W3C tracestate that belongs to pawl.traceparent.",
                        "A list of key=value. Empty: none.", &tracestate_value, check_tracestate);
    DefineCustomBoolVariable(
        "pawl.restoring", "Allows loading a dump into tables that extensions have enforced already.",
        "While it is on, no change is validated or recorded: PGOPTIONS='-c pawl.restoring=on' pg_restore ... "
        "Check the loaded rows with pawl.verify afterwards.",
        &restoring, false, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    MarkGUCPrefixReserved("pawl");
}

// Reads a client's headers as a trace context; null if they are none. An invalid tracestate is dropped.
PAWL_FUNCTION(pawl_trace_of) {
    const std::string_view parent = pg::view(pg::text_argument(fcinfo, 0));
    const std::size_t blank = parent.find(' ');
    const std::string_view id = parent.substr(0, blank);
    const std::string_view state = blank == std::string_view::npos ? std::string_view() : parent.substr(blank + 1);
    if (!core::is_traceparent(id)) {
        fcinfo->isnull = true;
        return static_cast<Datum>(0);
    }
    const bool whole = core::is_tracestate(state);
    return pg::call([&] {
        Datum values[] = {PointerGetDatum(pg::make_text(id)),
                          PointerGetDatum(pg::make_text(whole ? state : std::string_view()))};
        return PointerGetDatum(construct_array(values, 2, TEXTOID, -1, false, TYPALIGN_INT));
    });
}

}  // namespace pawl
