// May ereport; owns nothing. Sets the managed columns of a row: owner, lease, token, due and attempts when the row is
// inserted, takes a transition, or is updated without one.
#pragma once

#include "guard/column_changes.hpp"
#include "guard/ownership.hpp"

namespace pawl {

// The managed columns of a row in a BEFORE UPDATE trigger.
struct ManagedUpdate {
    const Bitmapset* updated;  // columns that the statement sets
    ColumnChanges changes;
};

// No lease is longer: one that does not expire would keep the row from every other processor.
extern const Interval longest_lease;

// An UPDATE of a row, as its BEFORE trigger sees it.
struct Statement {
    const Bitmapset* updated;  // columns that it sets, offset by FirstLowInvalidHeapAttributeNumber
    TupleTableSlot* before;
    TupleTableSlot* after;
};

// The actor that the statement names by setting the owner or the token.
Actor actor_in(const Managed& managed, const Statement& statement);

// For a row that takes a transition, which has been allowed. Rejects a lease that is too long (22023).
void set_for_transition(const Binding& binding, const Ownership& ownership, int transition, const Statement& statement,
                        const Intent* intent, ColumnChanges* changes);

// For a row between two transitions of one write: the managed columns of the version before. carry_columns: only those
// that the statement does not change itself, and that are not the same in its row.
void copy_columns(const Binding& binding, TupleTableSlot* before, ColumnChanges* changes);
void carry_columns(const Binding& binding, const Statement& statement, TupleTableSlot* before, ColumnChanges* changes);

// For a row whose state pawl.upgrade maps; ownership is not checked.
void set_for_remap(const Binding& binding, core::StateId to, const Statement& statement, const Intent* intent,
                   ColumnChanges* changes);

// For a row whose state does not change: rejects changes that only a transition may make.
void set_without_transition(const Binding& binding, core::StateId state, const Statement& statement,
                            const Intent* intent, ColumnChanges* changes);

// For a row to be inserted.
void set_for_new_row(const Binding& binding, core::StateId state, TupleTableSlot* row, ColumnChanges* changes);

// Rejects an owner in a state that is not owned, a missing owner in one that is, and a lease that is too long (22023).
void check_new_row(const Binding& binding, core::StateId state, TupleTableSlot* row);

// The fencing token of the row after these changes (may be null); negative: none.
int64 token_after(const Binding& binding, TupleTableSlot* row, const ColumnChanges* changes);

// Whether the row has a due time after these changes (may be null), before which it cannot be claimed.
bool waits_for_time(const Binding& binding, TupleTableSlot* row, const ColumnChanges* changes);

}  // namespace pawl
