// May ereport, where guards do; owns nothing. See decide.hpp.
#include "guard/decide.hpp"

namespace pawl {

namespace {

// Whether an arrow is one that an event (null: any) means. `timed`: it is the move of a timer, which may have no event.
bool is_meant(const Attachment& attachment, int arrow, const text* event, bool timed) {
    const BoundMachine& machine = *attachment.machine;
    if (timed && machine.machine->arrows()[arrow].after.empty()) return false;
    const text* named = machine.event_text[arrow];
    if (event == nullptr) return !timed || named == nullptr;
    return named != nullptr && view(named) == view(event);
}

// The event that moves of this attachment are meant as (null: any), from the intent or the settings. *strict: no other will do.
text* wanted_event(const Attachment& attachment, const Intent* intent, bool* strict) {
    *strict = true;
    if (intent != nullptr && (intent->event != nullptr || intent->timed)) return intent->event;
    text* event = event_setting();
    if (event == nullptr || !attachment.machine->machine->knows_event(view(event))) return nullptr;
    // Further down, in triggers and effects, the client's word is a preference: it was said of the client's own move.
    *strict = DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, static_cast<Datum>(0))) <= 1;
    return event;
}

// The first arrow that is meant and allowed; else no_arrow, and then the first objection.
int choose_arrow(const Question& question, const text* event, const RowVersions& row, Objection* objection) {
    *objection = {};
    Attachment& attachment = question.attachment;
    const bool timed = question.intent != nullptr && question.intent->timed;
    for (std::int32_t arrow : attachment.machine->machine->between(question.from, question.to)) {
        if (!is_meant(attachment, arrow, event, timed)) continue;
        Objection mine = {nullptr, question.standing == nullptr ? Bar::none : bar_of(attachment, *question.standing, arrow)};
        if (mine.bar == Bar::none && (attachment.calls[arrow].nguards == 0 || guards_allow(attachment, arrow, row, &mine.guard))) return arrow;
        if (!objection->any()) *objection = mine;
    }
    return no_arrow;
}

}  // namespace

RowVersions versions_of(const Row& before, const Attachment& before_of, const Row& after, const Attachment& after_of) {
    return {{before.tuple, before.slot == nullptr ? nullptr : before.slot->tts_tupleDescriptor, before_of.to_root},
            {after.tuple, after.slot == nullptr ? nullptr : after.slot->tts_tupleDescriptor, after_of.to_root}};
}

Decision decide(const Question& question, const RowVersions& row) {
    bool strict;
    const text* event = wanted_event(question.attachment, question.intent, &strict);
    Decision decision = {no_arrow, {}, nullptr};
    decision.arrow = choose_arrow(question, event, row, &decision.objection);
    if (decision.arrow == no_arrow && event != nullptr && !strict && !decision.objection.any()) {
        event = nullptr;
        decision.arrow = choose_arrow(question, nullptr, row, &decision.objection);
    }
    if (decision.arrow != no_arrow || decision.objection.any()) return decision;
    // A stale token is told to its owner wherever the row has gone since.
    if (question.standing != nullptr && question.standing->claim == Bar::old_token) decision.objection.bar = Bar::old_token;
    if (event != nullptr && !question.attachment.machine->machine->between(question.from, question.to).empty()) decision.event = event;
    return decision;
}

bool is_self_transition(const Attachment& attachment, core::StateId state, const Intent* intent) {
    if (intent != nullptr && intent->still) return false;
    if (state == core::no_state || attachment.machine->machine->between(state, state).empty()) return false;
    bool strict;
    text* event = wanted_event(attachment, intent, &strict);
    const bool timed = intent != nullptr && intent->timed;
    if ((event == nullptr && !timed) || !strict) return false;
    for (std::int32_t arrow : attachment.machine->machine->between(state, state))
        if (is_meant(attachment, arrow, event, timed)) return true;
    return false;
}

}  // namespace pawl
