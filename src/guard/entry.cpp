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

bool loses_stray_owner(const Binding& binding, core::StateId state, const Row& before, const Row& after) {
    const Managed& managed = *binding.managed;
    if (binding.validated || !managed.owner.kept() || (state != core::no_state && managed.owned[state])) return false;
    bool had_one = false;
    for (const ManagedColumn* column : {&managed.owner, &managed.lease}) {
        if (!column->kept()) continue;
        bool old_null, new_null;
        slot_getattr(before.slot, column->attribute, &old_null);
        slot_getattr(after.slot, column->attribute, &new_null);
        if (!new_null) return false;
        had_one |= !old_null;
    }
    return had_one;
}

}  // namespace pawl
