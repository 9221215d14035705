// Does not throw and does not ereport; owns nothing. What a function of the kernel asks of the one statement that it
// runs.
#pragma once

#include "catalog/state_change.hpp"
#include "session/context.hpp"

namespace pawl {

// What pawl.fire, the log's door and pawl.upgrade ask of the one UPDATE they make. It counts for rows of that table
// which this UPDATE itself moves, not for what triggers and effects do further down.
struct Intent : AttributionOverride {
    Oid root;
    const char* column;
    text* event;     // null: any
    bool has_token;  // the fencing token that the caller shows
    int64 token;
    bool any_token;         // pawl.token is not meant for these rows: the function sees to many
    TimestampTz at;         // when the rows were locked and it was decided where they go; 0: nothing was
    const Interval* lease;  // how long the row is taken for; null: as the binding says
    bool still;             // the UPDATE moves nothing, whatever pawl.event says
    bool timed;             // the moves are those of timers, whose transitions need no event
    bool remap;             // moves are those of pawl.upgrade, not of the machine
    MemoryContext capture;  // set: the first state change is kept there for the log's door instead of being written
    StateChange* captured;
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

// The intent that counts for a row of this binding now, or null.
Intent* intent_for(Oid root, const char* column) noexcept;
void clear_intents() noexcept;

}  // namespace pawl
