// Neither throws nor ereports; owns nothing. A state change: one row takes one transition.
#pragma once

#include "catalog/member_cache.hpp"

namespace pawl {

// One transition of one row.
struct StateChange {
    StateChange* next;
    SubTransactionId subtransaction;
    CommandId command;   // that made it: orders the state changes of a subject within the transaction
    TransactionId left;  // the writer of the version of the row that was left; invalid: the row was not there
    const Binding* binding;
    text* from;   // null: the row was not there
    text* to;     // null: the row is gone
    text* event;  // may be null
    text* processor;
    text* actor;
    text* correlation_id;
    Jsonb* metadata;
    TimestampTz at;
    bool may_wait;       // its predecessor may still be on its way
    bool captured;       // written by the log's door, not by the entry buffer
    std::uint8_t roles;  // of the transition; see counted_roles
    Datum key[FLEXIBLE_ARRAY_MEMBER];
};

// What the judge says of a state change.
struct Outcome {
    text* from;
    text* to;
    text* event;
    CommandId command;
    bool may_wait;           // the old version of the row was made by this transaction
    const text* processor;   // who acts; null: as the intent and the settings say
    Jsonb* remark;           // joined to the metadata; null: nothing
    TransactionId left;      // who wrote the old version of the row
    bool waits = false;      // for a due time: nobody can claim the row yet
    std::uint8_t roles = 0;  // of the transition; see counted_roles
    SubTransactionId subtransaction =
        InvalidSubTransactionId;  // in which it happened, if not in the one that is current
    TimestampTz at = 0;           // when it happened; 0: now
    Jsonb* facts = nullptr;       // what the result of the row says of itself; null: nothing
    int64 fence = -1;             // the fencing token that the row then has; negative: none
};

// What a state change became in its log.
struct LogEntry {
    pg_uuid_t id;
    int sort_key;
    TimestampTz at;
};

}  // namespace pawl
