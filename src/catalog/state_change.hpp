// Neither throws nor ereports; owns nothing. A state change: one row takes one transition.
#pragma once

#include "catalog/member_cache.hpp"

namespace pawl {

// What pawl.place asks for by its UPDATE, and the log entry that it becomes.
struct Placement {
    text* reason;
    text* to;
    int entries;  // log entries formed for it
};

// One transition of one row.
struct StateChange {
    StateChange* next;  // another row's, or a later one of the same row
    StateChange* then;  // the row's next one in the same write; null: none
    SubTransactionId subtransaction;
    CommandId command;   // the command that made it; orders the state changes of a subject within the transaction
    TransactionId left;  // xmin of the old version of the row; invalid: the row is new
    CommandId born;      // that made the old version, if this transaction did; else invalid
    bool born_new;       // it was inserted (also into another partition), and not updated
    CommandId made;      // that made the new version, if an AFTER trigger has made this known; else invalid
    const Binding* binding;
    text* from;   // null: the row is new
    text* to;     // null: the row is deleted
    text* event;  // may be null
    text* processor;
    text* actor;
    text* correlation_id;
    Jsonb* metadata;
    TimestampTz at;
    bool may_wait;         // its predecessor may still be in the entry buffer
    std::uint8_t roles;    // of the transition; see counted_roles
    bool begins;           // of a row that was there before its log: not written if the log has begun meanwhile
    Placement* placement;  // null: the row takes a transition; valid until the statement of pawl.place has ended
    Datum key[FLEXIBLE_ARRAY_MEMBER];
};

// The result of validating a state change.
struct Outcome {
    text* from;
    text* to;
    text* event;
    CommandId command;
    bool may_wait;                      // the old version of the row was made by this transaction
    bool begins;                        // see StateChange
    const text* processor;              // the acting processor; null: by the intent and the settings
    Jsonb* added;                       // joined to the metadata; may be null
    TransactionId left;                 // xmin of the old version of the row
    CommandId born = InvalidCommandId;  // see StateChange
    bool born_new = false;              // see StateChange
    CommandId made = InvalidCommandId;  // see StateChange
    bool waits = false;                 // the row has a due time and cannot be claimed yet
    std::uint8_t roles = 0;             // of the transition; see counted_roles
    SubTransactionId subtransaction = InvalidSubTransactionId;  // in which it happened; invalid: the current one
    TimestampTz at = 0;                                         // when it happened; 0: now
    Jsonb* facts = nullptr;          // from the row's result column, see facts_of_result; may be null
    Placement* placement = nullptr;  // the row is placed and takes no transition
    int64 token = -1;                // the fencing token of the new version of the row; negative: none
};

// The log entry of a state change.
struct LogEntry {
    pg_uuid_t id;
    int sort_key;
    TimestampTz at;
};

}  // namespace pawl
