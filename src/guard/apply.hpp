// May ereport; owns nothing. Applies what decide.hpp decides: sets the managed columns, records the state change and
// runs its effects, or rejects the row with an error.
#pragma once

#include "guard/decide.hpp"
#include "guard/managed_columns.hpp"

namespace pawl {

// Applies an update from its BEFORE trigger, if nothing can change the row afterwards. Values for managed columns go to
// `managed_update` (null: there are none). Effects are left to the AFTER trigger.
void apply_update_before(Member* member, const Row& before, const Row& after, ManagedUpdate* managed_update);

// Applies any other update, from its AFTER trigger: set_columns_before has set the managed columns.
void apply_update_after(Member* member, const Row& before, const Row& after);
void set_columns_before(Member* member, const Row& before, const Row& after, ManagedUpdate* managed_update);

// An inserted row: the BEFORE trigger sets its managed columns, the AFTER trigger does the rest.
void set_columns_of_new(Member* member, const Row& row, ColumnChanges* changes);
void apply_insert(Member* member, const Row& row);

enum class Ending { deleted, truncated };

// Whether the policy on_delete allows deletion in this state.
bool may_end(const Binding& binding, core::StateId state) noexcept;

// Records that a row was deleted by this command, in this subtransaction (invalid: the current one).
void apply_delete(Member* member, const Row& row, Ending ending, CommandId command,
                  SubTransactionId subtransaction = InvalidSubTransactionId);

// Applies an update that has moved a row to another partition.
void apply_partition_move(Member* from, const Row& before, Member* to, const Row& after);

// Runs the effects that the BEFORE trigger left for the old version of the row.
void run_pending_effects(Member* member, const Row& before, const Row& after);

}  // namespace pawl
