// May ereport; owns nothing. What becomes of a row: judged, recorded, and its effects run.
#pragma once

#include "guard/judge.hpp"
#include "guard/upkeep.hpp"

namespace pawl {

// A row version with the slot it can be read from.
struct Row {
    TupleTableSlot* slot;
    HeapTuple tuple;
};

enum class When { before, after };

// The managed columns of a row while a BEFORE UPDATE trigger looks at it.
struct Upkeep {
    const Bitmapset* updated;  // columns that the statement names
    ColumnChanges changes;
};

// Judges old -> new for every attachment of the member. `when` = before: effects are left for the AFTER trigger, and managed columns
// get their values by `upkeep` (null: none are kept, or they have been kept already).
void judge_update(Member* member, const Row& before, const Row& after, When when, Upkeep* upkeep);

// Keeps the managed columns of a row that only an AFTER trigger can judge.
void keep_before_judging(Member* member, const Row& before, const Row& after, Upkeep* upkeep);

// Keeps the managed columns of a row that is about to begin.
void keep_beginning(Member* member, const Row& row, ColumnChanges* changes);

// A row that begins here.
void judge_insert(Member* member, const Row& row);

enum class Ending { deleted, truncated };

// Whether the policy lets a row end in this state.
bool may_end(const Attachment& attachment, core::StateId state) noexcept;

// A row that ends here, by this command; of this subtransaction, if it is not the one that is current.
void judge_delete(Member* member, const Row& row, Ending ending, CommandId command, SubTransactionId subtransaction = InvalidSubTransactionId);

// A row that came from another partition.
void judge_move(Member* from, const Row& before, Member* to, const Row& after);

// Effects that a BEFORE trigger left, by the old version of the row.
void run_pending_effects(Member* member, const Row& before, const Row& after);
bool effects_are_pending() noexcept;
void forget_transition_memory() noexcept;  // end of transaction

}  // namespace pawl
