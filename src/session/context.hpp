// May ereport; owns nothing. Who acts and what for: the settings a client makes, and what a function of ours asks for.
#pragma once

#include "pg/postgres.hpp"

namespace pawl {

// Who and why, shared by the hops of a statement. Texts are null where nothing was said.
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

struct Hop;

// What pawl.fire, the log's door and pawl.upgrade ask of the one UPDATE they make. It counts for rows of that table which this
// UPDATE itself moves, not for what triggers and effects do further down.
struct Intent {
    Oid root;
    const char* column;
    text* event;       // null: any
    bool with_metadata;
    Jsonb* metadata;
    text* processor;       // null: as the settings say
    text* correlation_id;  // null: as the settings say
    bool has_token;        // the fencing token that the caller shows
    int64 token;
    bool any_token;        // pawl.token is not meant for these rows: the function sees to many
    TimestampTz at;        // when the rows were locked and it was decided where they go; 0: nothing was
    const Interval* lease;  // how long the row is taken for; null: as the binding says
    bool still;            // the UPDATE moves nothing, whatever pawl.event says
    bool timed;            // the moves are those of timers, whose arrows need no event
    bool remap;            // moves are those of pawl.upgrade, not of the machine
    MemoryContext capture;  // set: the first hop is kept there for the log's door instead of being written
    Hop* captured;
    int level;  // executor level at which it counts
    Intent* outer;
};

// While it lives, the intent is the current one. The destructor only resets a pointer.
class IntentScope {
public:
    explicit IntentScope(Intent& intent) noexcept;
    ~IntentScope() noexcept;
    IntentScope(const IntentScope&) = delete;
    IntentScope& operator=(const IntentScope&) = delete;

private:
    Intent* outer_;
};

// The intent that counts for a row of this attachment now, or null.
Intent* intent_for(Oid root, const char* column) noexcept;
void clear_intents() noexcept;

// The event the client named with the setting pawl.event, or null.
text* event_setting();

// The acting processor by the setting pawl.processor, or null; the fencing token by pawl.token; the delay before a retry by pawl.delay.
text* processor_setting();
bool token_setting(int64* token);
const Interval* delay_setting();

// Attribution as the settings say now; the same object as long as they do not change. Lives in the given context.
Attribution* current_attribution(MemoryContext context);
void forget_attribution() noexcept;

// How deep the executor is nested; kept by the hooks in hooks.cpp.
extern int executor_level;

// The outermost executor level with a statement whose rows wait for an AFTER trigger to judge them; no_level when there is none.
// As long as it runs, hops of a row need not be noted in the order in which they happened.
inline constexpr int no_level = INT_MAX;
extern int deferring_level;
inline bool rows_are_unjudged() noexcept { return deferring_level <= executor_level; }

// The setting pawl.restoring, for superusers and roles with SET on it.
extern bool restoring;

// Whether a dump is being loaded into tables that carry our triggers already: nothing is judged or recorded then. Not in maintenance
// that runs the expressions of a table's owner: the owner loads nothing.
inline bool is_restoring() noexcept { return restoring && !InSecurityRestrictedOperation(); }

void define_settings();

}  // namespace pawl
