// May ereport, where guards do; owns nothing. See decide.hpp.
#include "guard/decide.hpp"

namespace pawl {

namespace {

// Whether a transition matches an event (null: any). `timed`: a timer fires it, so that it may have no event.
bool is_meant(const Binding& binding, int transition, const text* event, bool timed) {
    const BoundMachine& machine = *binding.machine;
    if (timed && machine.machine->transitions()[transition].after.empty()) return false;
    const text* named = machine.event_text[transition];
    if (event == nullptr) return !timed || named == nullptr;
    return has_event(binding, transition, event);
}

// The event that was named for state changes of this binding (null: any), by the intent or the settings. *strict: only
// transitions of that event are allowed.
text* wanted_event(const Binding& binding, const Intent* intent, bool* strict) {
    *strict = true;
    if (intent != nullptr && (intent->event != nullptr || intent->timed)) return intent->event;
    text* event = event_setting();
    if (event == nullptr || !binding.machine->machine->knows_event(view(event))) return nullptr;
    // In triggers and effects the setting is only a preference: the client has set it for its own statement.
    *strict = DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, static_cast<Datum>(0))) <= 1;
    return event;
}

// The first transition that matches and is allowed; else no_transition, and *reason is the first rejection.
int choose_transition(const Question& question, const text* event, const RowVersions& row, RejectionReason* reason) {
    *reason = {};
    Binding& binding = question.binding;
    const bool timed = question.intent != nullptr && question.intent->timed;
    for (std::int32_t transition : binding.machine->machine->between(question.from, question.to)) {
        if (!is_meant(binding, transition, event, timed)) continue;
        RejectionReason mine = {nullptr, question.ownership == nullptr
                                             ? OwnershipFault::none
                                             : ownership_fault(binding, *question.ownership, transition)};
        if (mine.fault == OwnershipFault::none &&
            (binding.calls[transition].nguards == 0 || guards_allow(binding, transition, row, &mine.guard)))
            return transition;
        if (!reason->any()) *reason = mine;
    }
    return no_transition;
}

}  // namespace

bool has_event(const Binding& binding, int transition, const text* event) {
    const text* named = binding.machine->event_text[transition];
    return named != nullptr && view(named) == view(event);
}

RowVersions versions_of(const Row& before, const Binding& before_of, const Row& after, const Binding& after_of) {
    return {{before.tuple, before.slot == nullptr ? nullptr : before.slot->tts_tupleDescriptor, before_of.to_root},
            {after.tuple, after.slot == nullptr ? nullptr : after.slot->tts_tupleDescriptor, after_of.to_root}};
}

Decision decide(const Question& question, const RowVersions& row) {
    bool strict;
    const text* event = wanted_event(question.binding, question.intent, &strict);
    Decision decision = {no_transition, {}, nullptr};
    decision.transition = choose_transition(question, event, row, &decision.reason);
    if (decision.transition == no_transition && event != nullptr && !strict && !decision.reason.any()) {
        event = nullptr;
        decision.transition = choose_transition(question, nullptr, row, &decision.reason);
    }
    if (decision.transition != no_transition || decision.reason.any()) return decision;
    // A stale token is reported whatever state the row is in by now.
    if (question.ownership != nullptr && question.ownership->claim == OwnershipFault::stale_token)
        decision.reason.fault = OwnershipFault::stale_token;
    if (event != nullptr && !question.binding.machine->machine->between(question.from, question.to).empty())
        decision.event = event;
    return decision;
}

bool is_self_transition(const Binding& binding, core::StateId state, const Intent* intent) {
    if (intent != nullptr && intent->still) return false;
    if (state == core::no_state || binding.machine->machine->between(state, state).empty()) return false;
    bool strict;
    text* event = wanted_event(binding, intent, &strict);
    const bool timed = intent != nullptr && intent->timed;
    if ((event == nullptr && !timed) || !strict) return false;
    for (std::int32_t transition : binding.machine->machine->between(state, state))
        if (is_meant(binding, transition, event, timed)) return true;
    return false;
}

}  // namespace pawl
