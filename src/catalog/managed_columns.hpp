// May ereport; owns nothing. The columns of an enforced table that the kernel keeps (owner, lease, token, due,
// attempts), and what the binding says of them.
#pragma once

#include "catalog/catalog.hpp"
#include "catalog/machine_cache.hpp"
#include "core/backoff.hpp"

namespace pawl {

struct ManagedColumn {
    AttrNumber attribute;  // in the member table; 0: the binding names none
    Oid type;              // of the column
    Oid base;              // the type, or what the domain is over
    int32 modifier;        // of the type, as the length of a varchar
    NameData name;

    bool kept() const { return attribute != InvalidAttrNumber; }
};

// What a transition is to the kernel, besides a state change.
enum TransitionRole : std::uint8_t {
    role_expires = 1,   // fired for a row whose lease has run out
    role_retries = 2,   // needs attempts that are left, and sets due by the backoff
    role_operates = 4,  // needs no ownership, but the rights of an operator
    role_claims = 8,    // taken by pawl.claim
    role_times = 16,    // fired when the row's due time has passed
};

struct Names {
    char** items;
    int n;

    bool contain(std::string_view name) const {
        for (int i = 0; i < n; ++i)
            if (name == items[i]) return true;
        return false;
    }
};

struct Managed {
    ManagedColumn owner, lease, token, due, attempts, max_attempts, queue, backoff_policy;
    bool* owned;                // by state: tagged `owned`
    std::uint8_t* roles;        // by transition: TransitionRole
    Interval** shortest_after;  // by state; null: no timer
    Interval lease_time;
    core::BackoffPolicy backoff;
    text* expiry_event;  // null: none
    text* expiry_else;   // where expiry_event leads nowhere; null: none
    Names claim_events, retry_events, operator_events;
    Names claim_columns;  // in claim order
    bool* claim_descending;
};

// What the binding says; null when it manages nothing. Allocated in the current memory context, as what resolve_managed
// adds.
Managed* read_managed(const CatalogRow& row);

// What a damaged row of pawl.binding says of them, as a sentence; null when it is what pawl.enforce would have written.
const char* managed_problem(const Managed& managed);

// The same of the columns that were found: of the wrong type, or used twice.
const char* column_problem(const Managed& managed, AttrNumber state);

// Finds the columns in a member table, and what states and transitions of the machine mean to them.
void resolve_managed(Managed& managed, const core::Machine& machine, Relation relation);

}  // namespace pawl
