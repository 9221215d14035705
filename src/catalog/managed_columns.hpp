// May ereport; owns nothing. The managed columns of an enforced table (owner, lease, token, due, attempts), and the
// settings of the binding for them.
#pragma once

#include "catalog/catalog.hpp"
#include "catalog/machine_cache.hpp"
#include "core/backoff.hpp"

namespace pawl {

struct ManagedColumn {
    AttrNumber attribute;  // in the member table; 0: the binding names none
    Oid type;              // of the column
    Oid base;              // the type, or the base type of the domain
    int32 modifier;        // of the type, such as the length of a varchar
    NameData name;

    bool kept() const { return attribute != InvalidAttrNumber; }
};

// Special roles of a transition.
enum TransitionRole : std::uint8_t {
    role_expires = 1,   // fired for a row whose lease has expired
    role_retries = 2,   // needs remaining attempts, and sets due by the backoff
    role_operates = 4,  // needs the rights of an operator instead of ownership
    role_claims = 8,    // used by pawl.claim
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
    text* expiry_else;   // used if expiry_event has no allowed transition; null: none
    Names claim_events, retry_events, operator_events;
    Names claim_columns;  // in claim order
    bool* claim_descending;
};

// Reads the settings of a binding; null if it manages no columns. Allocated in the current memory context, like what
// resolve_managed adds.
Managed* read_managed(const CatalogRow& row);

// Describes damage in the settings as a sentence; null if they are what pawl.enforce would have written.
const char* managed_problem(const Managed& managed);

// Describes damage in the resolved columns: a wrong type, or a column used twice. Null: none.
const char* column_problem(const Managed& managed, AttrNumber state);

// Finds the columns in a member table, and the roles of the machine's states and transitions.
void resolve_managed(Managed& managed, const core::Machine& machine, Relation relation);

}  // namespace pawl
