// May ereport; owns nothing. Decides the transitions that one write makes of a row, in its BEFORE or its AFTER trigger,
// or rejects the row with an error.
#pragma once

#include "guard/handover.hpp"
#include "guard/row_states.hpp"

namespace pawl {

// The write of a row that is already stored. If it changes partition, the two bindings differ.
struct Write {
    const Member& member;  // the table that the new version is in
    Binding& binding;      // of that table
    const Binding& before_of;
    const Row& before;
    const Row& after;
    Intent* intent;
};

Statement statement_of(const ManagedUpdate& managed_update, const Row& before, const Row& after);

// Returns the decided transition. `row_of`: the binding of the row's table, for the error.
int decide_or_reject(const Question& question, const RowVersions& versions, const Binding& row_of, const Row& row,
                     const States& states);

// Decides a write that nothing has decided yet. Managed columns go to `managed_update`; null: there are none.
void decide_write(const Write& write, const States& states, ManagedUpdate* managed_update, Path* path);

bool has_guards(const Binding& binding, const Path& path);

// In an AFTER trigger: rejects a row whose managed columns are not as its BEFORE trigger has set them.
void require_as_set(const Write& write, const Decided& decided);

// The same for a row that takes the transitions which its BEFORE trigger has decided: its state must be the last of
// them, and if other columns have changed, the guards are asked again.
void require_as_decided(const Write& write, const Decided& decided, const States& states);

// A trigger has changed the state after the managed columns were set.
[[noreturn]] void reject_rewritten_state(const Write& write);

}  // namespace pawl
