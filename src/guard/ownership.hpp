// May ereport; owns nothing. Who may move a row that is owned: the rules of leases and fencing tokens.
#pragma once

#include "catalog/member_cache.hpp"
#include "guard/intent.hpp"

namespace pawl {

// Who acts on a row, and the fencing token he shows for it.
struct Actor {
    const text* name;  // null: nobody was named
    bool has_token;
    int64 token;
    TimestampTz at;  // when he locked the row; 0: now
    bool takes;      // the statement writes him into the owner column
};

// Why a row may not take a transition.
enum class OwnershipFault : std::uint8_t { none, no_processor, unowned, not_owner, expired, stale_token, no_attempts };

// A row's managed columns as they are before a move, and who wants to move it.
struct Ownership {
    const Managed* managed;
    Actor actor;
    TimestampTz now;    // the server's clock, read under the lock of all rows of the call: what decides whether a lease
                        // has expired
    TimestampTz moved;  // the same, read for this row: what its new timer counts from
    Datum owner;
    bool has_owner;
    bool has_lease;
    TimestampTz lease;
    bool is_due;  // the timer of its state has run down
    int64 token;  // 0 where the column is null or not there
    int attempts;
    int max_attempts;      // 0: no limit
    bool is_owner;         // the actor, if the lease still runs
    OwnershipFault claim;  // why the actor may not act as the owner; none: he may, or there is no owner
};

// Who acts: what the function was told, else what the statement itself says (it sets the owner or the token), else the
// settings pawl.processor and pawl.token.
Actor acting(const Intent* intent, const Actor& said);

Ownership ownership_of(const Binding& binding, TupleTableSlot* row, const Actor& actor);

// Whether ownership and attempts let the row take this transition.
OwnershipFault ownership_fault(const Binding& binding, const Ownership& ownership, int transition);

// Whether a transition takes the row from its owner without his doing. A timer that leads from one owned state to
// another does not.
bool takes_away(const Binding& binding, const Ownership& ownership, int transition);

// `what` is what was tried: "the transition from ... to ...".
struct Rejection;
Rejection ownership_rejection(const Binding& binding, TupleTableSlot* row, const Ownership& ownership,
                              OwnershipFault fault, const char* what);
[[noreturn]] void reject_ownership(const Binding& binding, TupleTableSlot* row, const Ownership& ownership,
                                   OwnershipFault fault, const char* what);
const char* describe_move(const text* from, const text* to);

int64 managed_number(const ManagedColumn& column, Datum value);  // of an integer column, whatever its size

// The owner column's value as text, and a processor's name as a value of the column: an error where the column cannot
// hold it.
text* owner_text(const Managed& managed, Datum owner);
Datum owner_value(const Managed& managed, const text* name);

// Whether an owner has this name. No error where the column could not hold it: then he has not.
bool is_named(const Managed& managed, Datum owner, const text* name);

}  // namespace pawl
