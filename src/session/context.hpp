// May ereport; owns nothing. Who acts and what for, by the settings that a client makes; and how deep the executor is
// nested.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// Who and why, shared by the state changes of a statement. Texts are null where nothing was said.
struct Attribution {
    text* processor;
    text* actor;
    text* correlation_id;
    Jsonb* metadata;  // with the trace
    Jsonb* trace;     // {"traceparent": ..., "tracestate": ...}
};

// The metadata with the trace joined to it: it goes before what the caller says himself, and only into objects.
Jsonb* with_trace(Jsonb* trace, Jsonb* metadata);

// A trace as it is recorded; null: that is no traceparent. What is no tracestate is left out.
Jsonb* trace_of(std::string_view traceparent, std::string_view tracestate);

// What the caller of a function says of the state changes it makes, over what the settings say.
struct AttributionOverride {
    bool with_metadata;
    Jsonb* metadata;
    text* processor;       // null: as the settings say
    text* correlation_id;  // null: as the settings say
};

// The event the client named with the setting pawl.event, or null.
text* event_setting();

// The acting processor by the setting pawl.processor, or null; the fencing token by pawl.token; the delay before a
// retry by pawl.delay.
text* processor_setting();
bool token_setting(int64* token);
const Interval* delay_setting();

// Attribution as the settings say now; the same object as long as they do not change. Lives in the given context.
Attribution* current_attribution(MemoryContext context);
void forget_attribution() noexcept;

// How deep the executor is nested; kept by the hooks in hooks.cpp.
extern int executor_level;

// The outermost executor level with a statement whose rows wait for an AFTER trigger to judge them; no_level when there
// is none. As long as it runs, state changes of a row need not be noted in the order in which they happened.
inline constexpr int no_level = INT_MAX;
extern int deferring_level;
inline bool rows_are_deferred() noexcept {
    return deferring_level <= executor_level;
}

// The setting pawl.restoring, for superusers and roles with SET on it.
extern bool restoring;

// Whether a dump is being loaded into tables that carry our triggers already: nothing is judged or recorded then. Not
// in maintenance that runs the expressions of a table's owner: the owner loads nothing.
inline bool is_restoring() noexcept {
    return restoring && !InSecurityRestrictedOperation();
}

void define_settings();

}  // namespace pawl
