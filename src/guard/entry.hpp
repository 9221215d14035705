// May ereport; owns nothing. Rows that were there before a binding and are in a state which its machine does not have:
// while the binding is not validated, they can enter the machine as new rows do.
#pragma once

#include "guard/managed_columns.hpp"
#include "guard/row_states.hpp"

namespace pawl {

// Sets states->enters, and states->from_text to null, if the row enters the machine by this write.
void let_enter(const Binding& binding, States* states);

// The managed columns of a row that enters: as of a new row in a state that is owned, else it loses an owner that it
// has. Raises PW004 if the state needs an owner.
void set_for_entry(const Binding& binding, core::StateId to, const Statement& statement, ColumnChanges* changes);

// Whether a row of before that has an owner or a lease in a state that is not owned loses both by this write: the
// binding is not validated, and cannot be with such rows.
bool loses_stray_owner(const Binding& binding, core::StateId state, const Row& before, const Row& after);

}  // namespace pawl
