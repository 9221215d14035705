// May ereport; owns nothing. Applies what decide.hpp decides: keeps the managed columns, records the state change, runs
// its effects, or rejects the row with an error.
#pragma once

#include "guard/decide.hpp"
#include "guard/managed_columns.hpp"

namespace pawl {

// The managed columns of a row while a BEFORE UPDATE trigger looks at it.
struct ManagedUpdate {
    const Bitmapset* updated;  // columns that the statement names
    ColumnChanges changes;
};

// An update that its BEFORE trigger can look at whole: nothing changes the row after it. Managed columns get their
// values by `upkeep` (null: none are kept). Effects are left for the AFTER trigger.
void apply_update_before(Member* member, const Row& before, const Row& after, ManagedUpdate* managed_update);

// Any other update, from its AFTER trigger: the managed columns have been kept by set_columns_before.
void apply_update_after(Member* member, const Row& before, const Row& after);
void set_columns_before(Member* member, const Row& before, const Row& after, ManagedUpdate* managed_update);

// A row that is inserted: its managed columns from the BEFORE trigger, the rest from the AFTER trigger.
void set_columns_of_new(Member* member, const Row& row, ColumnChanges* changes);
void apply_insert(Member* member, const Row& row);

enum class Ending { deleted, truncated };

// Whether the policy on_delete lets a row end in this state.
bool may_end(const Binding& binding, core::StateId state) noexcept;

// A row that ends, by this command; of this subtransaction, if it is not the one that is current.
void apply_delete(Member* member, const Row& row, Ending ending, CommandId command,
                  SubTransactionId subtransaction = InvalidSubTransactionId);

// A row that came from another partition.
void apply_partition_move(Member* from, const Row& before, Member* to, const Row& after);

// The effects that a BEFORE trigger left, by the old version of the row.
void run_pending_effects(Member* member, const Row& before, const Row& after);

void forget_state_texts() noexcept;  // end of transaction

}  // namespace pawl
