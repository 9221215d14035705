// May ereport; owns nothing. Keeps the managed columns of a row: what the kernel writes into owner, lease, token, due
// and attempts when the row begins, moves, or is written without a move.
#pragma once

#include "guard/ownership.hpp"

namespace pawl {

// Columns of a row that are to get other values than the statement gave them.
struct ColumnChanges {
    int n;
    int room;
    int* columns;
    Datum* values;
    bool* nulls;
};

// What a statement does to a row, as a BEFORE UPDATE trigger sees it.
struct Statement {
    const Bitmapset* updated;  // columns that it names, offset by FirstLowInvalidHeapAttributeNumber
    TupleTableSlot* before;
    TupleTableSlot* after;
};

// What the statement itself says of who acts: it sets the owner, or the token.
Actor actor_in(const Managed& managed, const Statement& statement);

// A row that takes a transition: the transition was allowed.
void set_for_transition(const Binding& binding, const Ownership& ownership, int transition, const Statement& statement,
                        const Intent* intent, ColumnChanges* changes);

// A row that pawl.upgrade puts into a state, whoever owns it.
void set_for_remap(const Binding& binding, core::StateId to, const Statement& statement, ColumnChanges* changes);

// A row whose state stays: refuses what only a move may change.
void set_without_transition(const Binding& binding, core::StateId state, const Statement& statement,
                            const Intent* intent, ColumnChanges* changes);

// A row that begins in a state, before it is written.
void set_for_new_row(const Binding& binding, core::StateId state, TupleTableSlot* row, ColumnChanges* changes);

// Refuses an owner in a state that nobody can own, and none in a state that somebody must.
void check_new_row(const Binding& binding, core::StateId state, TupleTableSlot* row);

// The fencing token that a row will have, with these changes (may be null) made to it; negative: none.
int64 token_after(const Binding& binding, TupleTableSlot* row, const ColumnChanges* changes);

// Whether a row will have a due time, with these changes (may be null) made to it: until then nobody may claim it.
bool waits_for_time(const Binding& binding, TupleTableSlot* row, const ColumnChanges* changes);

}  // namespace pawl
