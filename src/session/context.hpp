// May ereport; owns nothing. The attribution of state changes by the client's settings, and the nesting depth of the
// executor.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// The attribution of state changes, shared by those of a statement. Texts are null where nothing was set.
struct Attribution {
    text* processor;
    text* actor;
    text* correlation_id;
    Jsonb* metadata;  // with the trace
    Jsonb* trace;     // {"traceparent": ..., "tracestate": ...}
};

// Adds the trace to metadata that is an object or null. Keys of the metadata win over those of the trace.
Jsonb* with_trace(Jsonb* trace, Jsonb* metadata);

// A trace in the form that the log stores; null if traceparent is invalid. An invalid tracestate is left out.
Jsonb* trace_of(std::string_view traceparent, std::string_view tracestate);

// Attribution given as arguments of a function, which overrides the settings.
struct AttributionOverride {
    bool with_metadata;
    Jsonb* metadata;
    text* processor;       // null: by the settings
    text* correlation_id;  // null: by the settings
};

// The event the client named with the setting pawl.event, or null.
text* event_setting();

// The events that one UPDATE takes a row through, in their order.
inline constexpr int max_listed_events = 16;
struct EventList {
    int n;  // at least 1
    const text* events[max_listed_events];
};

// The events that the client listed with the setting pawl.events; null: none, or this is not the client's own
// statement but one of a trigger or an effect below it. Valid until the transaction ends.
// It is asked by a trigger, or by the condition of one, which is evaluated one trigger level above its function.
enum class Asking { trigger, condition };
const EventList* events_setting(Asking asking = Asking::trigger);
void forget_events() noexcept;  // end of transaction

// The acting processor by the setting pawl.processor, or null; the fencing token by pawl.token; the delay before a
// retry by pawl.delay.
text* processor_setting();
bool token_setting(int64* token);
const Interval* delay_setting();

// The attribution by the current settings, allocated in the given context; the same object until they change.
Attribution* current_attribution(MemoryContext context);
void forget_attribution() noexcept;

// The nesting depth of the executor; maintained by hooks.cpp.
extern int executor_level;

// The outermost executor level with a statement whose rows are validated by an AFTER trigger; no_level if there is
// none. While it runs, state changes of a row may enter the buffer out of order.
inline constexpr int no_level = INT_MAX;
extern int deferring_level;
inline bool rows_are_deferred() noexcept {
    return deferring_level <= executor_level;
}

// The setting pawl.restoring, for superusers and roles with SET on it.
extern bool restoring;

// Whether a dump is being loaded into tables that already have pawl's triggers: then nothing is validated or recorded.
// False during maintenance that evaluates expressions of a table's owner.
inline bool is_restoring() noexcept {
    return restoring && !InSecurityRestrictedOperation();
}

// Called after pawl.set_context has set a setting for the transaction; may be null, may ereport.
extern void (*context_set)(const char* setting, const char* value);

void define_settings();

}  // namespace pawl
