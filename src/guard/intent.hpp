// Does not throw and does not ereport; owns nothing. The intent of a kernel function for the statement that it runs.
#pragma once

#include "catalog/state_change.hpp"
#include "session/context.hpp"

namespace pawl {

// What pawl.fire, an INSERT into the log, pawl.upgrade or pawl.place means by its UPDATE. It applies to rows of that
// table changed by the UPDATE itself, not to those changed by triggers and effects.
struct Intent : AttributionOverride {
    Oid root;
    const char* column;
    text* event;              // null: any
    const EventList* events;  // several transitions in one write; null: one
    const text* events_to;    // the list is for rows that enter this state, others take one transition; null: for all
    const text* const* processors;  // that take the transitions of the list, one each; null: `processor` takes all
    bool has_token;                 // the caller has shown a fencing token
    int64 token;
    bool any_token;         // ignore pawl.token: the function changes many rows
    TimestampTz at;         // when the rows were locked and their transitions chosen; 0: they were not
    const Interval* lease;  // lease time of the claim; null: that of the binding
    bool still;             // the UPDATE takes no transition; ignore pawl.event
    bool timed;             // timers fire the transitions, which need no event
    bool remap;             // states are mapped by pawl.upgrade or pawl.place, not by transitions
    Placement* placement;   // of pawl.place; null: another function
    MemoryContext capture;  // if set, the first state change is allocated there for log_insert.cpp and not buffered
    StateChange* captured;
    int level;  // executor level at which it applies
    Intent* outer;
};

// Makes an intent the current one for its lifetime. The destructor only resets a pointer.
class IntentScope {
public:
    explicit IntentScope(Intent& intent) noexcept;
    ~IntentScope() noexcept;
    IntentScope(const IntentScope&) = delete;
    IntentScope& operator=(const IntentScope&) = delete;

private:
    Intent* outer_;
};

// The intent that applies to rows of this binding now; may be null.
Intent* intent_for(Oid root, const char* column) noexcept;
const Intent& innermost_intent() noexcept;  // there must be one
bool intent_lists_events() noexcept;        // the innermost one, whatever it applies to
void clear_intents() noexcept;

}  // namespace pawl
