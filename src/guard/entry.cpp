// May ereport; owns nothing. See entry.hpp.
#include "guard/entry.hpp"

namespace pawl {

void let_enter(const Binding& binding, States* states) {
    states->enters = !states->stays && states->from == core::no_state && !binding.validated;
    if (states->enters) states->from_text = nullptr;
}

void set_for_entry(const Binding& binding, core::StateId to, const Statement& statement, ColumnChanges* changes) {
    const Managed& managed = *binding.managed;
    Intent none = {};
    if (!managed.owner.kept() || !managed.owned[to]) return set_for_remap(binding, to, statement, &none, changes);
    if (processor_setting() == nullptr) check_new_row(binding, to, statement.after);
    set_for_new_row(binding, to, statement.after, changes);
}

}  // namespace pawl
