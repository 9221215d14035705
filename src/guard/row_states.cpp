// May ereport; owns nothing. See row_states.hpp.
#include "guard/row_states.hpp"

#include "guard/listed_events.hpp"

namespace pawl {

namespace {

text* last_unknown_state = nullptr;  // in the transaction's memory

bool same_state(const Binding& binding, Datum a, bool a_null, Datum b, bool b_null) {
    if (a_null || b_null) return a_null == b_null;
    if (binding.is_enum) return a == b;
    return view(DatumGetTextPP(a)) == view(DatumGetTextPP(b));
}

// Whether the intent lists events, but not for rows that enter this state.
bool is_for_others(const Binding& binding, core::StateId to, const Intent* intent) {
    return intent != nullptr && intent->events_to != nullptr &&
           (to == core::no_state || view(binding.machine->state_text[to]) != view(intent->events_to));
}

// The states in both versions, and their texts.
void read_both(const Binding& before_of, const Row& before, const Binding& after_of, const Row& after, States* states) {
    bool old_null, new_null;
    const Datum old_value = slot_getattr(before.slot, before_of.state, &old_null);
    const Datum new_value = slot_getattr(after.slot, after_of.state, &new_null);
    states->from = decode_state(before_of, old_value, old_null);
    states->to = decode_state(after_of, new_value, new_null);
    states->from_text = lasting_text(before_of, states->from, old_value, old_null);
    states->to_text = states->to == core::no_state ? state_as_text(after_of, new_value, new_null)
                                                   : after_of.machine->state_text[states->to];
}

}  // namespace

text* lasting_text(const Binding& binding, core::StateId state, Datum value, bool null) {
    if (state != core::no_state) return binding.machine->state_text[state];
    text* name = state_as_text(binding, value, null);
    if (name == nullptr || (last_unknown_state != nullptr && view(last_unknown_state) == view(name)))
        return name == nullptr ? nullptr : last_unknown_state;
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    last_unknown_state = make_text(view(name));
    MemoryContextSwitchTo(caller);
    return last_unknown_state;
}

States states_of(const Binding& before_of, const Row& before, const Binding& after_of, const Row& after,
                 const Intent* intent) {
    bool old_null, new_null;
    const Datum old_value = slot_getattr(before.slot, before_of.state, &old_null);
    const Datum new_value = slot_getattr(after.slot, after_of.state, &new_null);
    States states = {core::no_state, decode_state(after_of, new_value, new_null), nullptr, nullptr, false, nullptr};
    states.events = is_for_others(after_of, states.to, intent) ? nullptr : events_for(after_of, intent);
    states.stays = (intent == nullptr || intent->placement == nullptr) &&
                   same_state(after_of, old_value, old_null, new_value, new_null) &&
                   !(states.events != nullptr ? may_lead_back(after_of, states.to, *states.events)
                                              : is_self_transition(after_of, states.to, intent));
    if (!states.stays) read_both(before_of, before, after_of, after, &states);
    return states;
}

States moving_states_of(const Binding& before_of, const Row& before, const Binding& after_of, const Row& after) {
    States states = {};
    read_both(before_of, before, after_of, after, &states);
    return states;
}

void forget_state_texts() noexcept {
    last_unknown_state = nullptr;
}

}  // namespace pawl
