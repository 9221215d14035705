// May ereport; owns nothing. Whether an actor may change the state of an owned row: the rules of leases and fencing
// tokens.
#pragma once

#include "catalog/member_cache.hpp"
#include "guard/intent.hpp"

namespace pawl {

// The processor that acts on a row, and its fencing token.
struct Actor {
    const text* name;  // null: no processor given
    bool has_token;
    int64 token;
    TimestampTz at;  // when the row was locked; 0: now
    bool takes;      // the statement sets the owner column to it
};

// Why ownership or attempts forbid a transition.
enum class OwnershipFault : std::uint8_t { none, no_processor, unowned, not_owner, expired, stale_token, no_attempts };

// A row's managed columns before a state change, and the actor.
struct Ownership {
    const Managed* managed;
    Actor actor;
    TimestampTz
        now;  // the server's clock, read after locking all rows of the call; decides whether a lease has expired
    TimestampTz moved;  // the clock, read for this row; its new timer starts there
    Datum owner;
    bool has_owner;
    bool has_lease;
    TimestampTz lease;
    bool is_due;  // the timer of its state has passed
    int64 token;  // 0 if the column is null or not managed
    int attempts;
    int max_attempts;      // 0: no limit
    bool is_owner;         // the actor is the owner and the lease has not expired
    OwnershipFault claim;  // why the actor may not act as the owner; none: it may, or there is no owner
};

// The actor: by the function's arguments, else by the statement (it sets the owner or the token), else by the settings
// pawl.processor and pawl.token.
Actor acting(const Intent* intent, const Actor& said);

Ownership ownership_of(const Binding& binding, TupleTableSlot* row, const Actor& actor);

// Checks whether ownership and attempts allow this transition.
OwnershipFault ownership_fault(const Binding& binding, const Ownership& ownership, int transition);

// Whether a transition ends an ownership that the owner has not given up itself. A timer from one owned state to
// another does not.
bool takes_away(const Binding& binding, const Ownership& ownership, int transition);

// `what` is the rejected action: "the transition from ... to ...".
struct Rejection;
Rejection ownership_rejection(const Binding& binding, TupleTableSlot* row, const Ownership& ownership,
                              OwnershipFault fault, const char* what);
[[noreturn]] void reject_ownership(const Binding& binding, TupleTableSlot* row, const Ownership& ownership,
                                   OwnershipFault fault, const char* what);
const char* describe_move(const text* from, const text* to);

int64 managed_number(const ManagedColumn& column, Datum value);  // of an integer column, whatever its size

// The owner column's value as text, and a processor's name as a value of the column. Raises an error if the column
// cannot hold the name.
text* owner_text(const Managed& managed, Datum owner);
Datum owner_value(const Managed& managed, const text* name);

// Whether the owner has this name. A name that the column cannot hold is no error; the result is false.
bool is_named(const Managed& managed, Datum owner, const text* name);

}  // namespace pawl
