// May ereport; owns nothing. See apply.hpp.
#include "guard/apply.hpp"

#include "events/wake.hpp"
#include "guard/handover.hpp"
#include "guard/metadata.hpp"
#include "guard/refusal.hpp"
#include "log/journal.hpp"
#include "session/observer.hpp"

namespace pawl {

namespace {

text* last_unknown_state = nullptr;  // in the transaction's memory

bool made_here(HeapTuple tuple) { return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)); }

bool same_state(const Attachment& attachment, Datum a, bool a_null, Datum b, bool b_null) {
    if (a_null || b_null) return a_null == b_null;
    if (attachment.is_enum) return a == b;
    return view(DatumGetTextPP(a)) == view(DatumGetTextPP(b));
}

void check_key(const Attachment& before_of, TupleTableSlot* before, const Attachment& after_of, TupleTableSlot* after) {
    if (!is_recorded(after_of)) return;
    for (int i = 0; i < after_of.nkeys; ++i) {
        bool old_null, new_null;
        Datum old_value = slot_getattr(before, before_of.keys[i].attribute, &old_null);
        Datum new_value = slot_getattr(after, after_of.keys[i].attribute, &new_null);
        if (old_null || new_null ? old_null != new_null : !same_key_value(after_of.keys[i], old_value, new_value))
            refuse_key_change(before_of, before);
    }
}

// A state's text that lives as long as the journal needs it. States that the machine does not know are kept once, as long as
// rows in the same one follow each other.
text* lasting_text(const Attachment& attachment, core::StateId state, Datum value, bool null) {
    if (state != core::no_state) return attachment.machine->state_text[state];
    text* name = state_as_text(attachment, value, null);
    if (name == nullptr || (last_unknown_state != nullptr && view(last_unknown_state) == view(name)))
        return name == nullptr ? nullptr : last_unknown_state;
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    last_unknown_state = make_text(view(name));
    MemoryContextSwitchTo(caller);
    return last_unknown_state;
}

// Names of the events that are pawl's own, made once a session.
text* reserved_event(text** made, const char* name) {
    if (*made != nullptr) return *made;
    MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);
    *made = cstring_to_text(name);
    MemoryContextSwitchTo(caller);
    return *made;
}

text* event_of(Ending ending) {
    static text* deleted = nullptr;
    static text* truncated = nullptr;
    return ending == Ending::deleted ? reserved_event(&deleted, "pawl.delete") : reserved_event(&truncated, "pawl.truncate");
}

text* upgrade_event() {
    static text* upgrade = nullptr;
    return reserved_event(&upgrade, "pawl.upgrade");
}

// A subscriber gets rows as they were kept by their publisher.
bool keeps_columns(const Attachment& attachment) {
    return attachment.managed != nullptr && SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA;
}

Statement statement_of(const Upkeep& upkeep, const Row& before, const Row& after) { return {upkeep.updated, before.slot, after.slot}; }

[[noreturn]] void report_rewritten(const Attachment& attachment, TupleTableSlot* row) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("a trigger moved the row after pawl had kept its columns"),
                    errdetail("%s: a BEFORE UPDATE trigger sorts after that of pawl.", describe_subject(attachment, row)),
                    errhint("Give that trigger a shorter name.")));
}

// What was decided is told to those who wait and to those who count, and goes to the log: into the journal, or to the function that asked
// for it.
void record(const Attachment& attachment, TupleTableSlot* row, const Verdict& verdict, Intent* intent) {
    if (attachment.wake && !verdict.waits) note_claimable(attachment, verdict.to);
    if (observer.changed != nullptr) observer.changed(attachment, verdict);
    if (!keeps_record(attachment)) return;
    if (intent != nullptr && intent->capture != nullptr && intent->captured == nullptr)
        intent->captured = make_hop_in(intent->capture, attachment, row, verdict, intent);
    else
        record_hop(attachment, row, verdict, intent);
}

// The states of a row before and after, in one attachment or, where the row changes partition, in two.
struct States {
    core::StateId from, to;
    text* from_text;
    text* to_text;
    bool stays;  // the state is the same, and no transition to itself is meant
};

States states_of(const Attachment& before_of, const Row& before, const Attachment& after_of, const Row& after, const Intent* intent) {
    bool old_null, new_null;
    const Datum old_value = slot_getattr(before.slot, before_of.state, &old_null);
    const Datum new_value = slot_getattr(after.slot, after_of.state, &new_null);
    States states = {core::no_state, decode_state(after_of, new_value, new_null), nullptr, nullptr, false};
    states.stays = same_state(after_of, old_value, old_null, new_value, new_null) && !is_self_transition(after_of, states.to, intent);
    if (states.stays) return states;
    states.from = decode_state(before_of, old_value, old_null);
    states.from_text = lasting_text(before_of, states.from, old_value, old_null);
    states.to_text = states.to == core::no_state ? state_as_text(after_of, new_value, new_null) : after_of.machine->state_text[states.to];
    return states;
}

// The arrow that is decided, or the error. `row_of`: the attachment of the table that the row lies in, which the error names.
int decide_or_reject(const Question& question, const RowVersions& versions, const Attachment& row_of, const Row& row, const States& states) {
    const Decision decision = decide(question, versions);
    if (decision.arrow != no_arrow) return decision.arrow;
    const Objection& objection = decision.objection;
    if (objection.guard != nullptr) raise(rejected_by_guard(row_of, row.slot, states.from_text, states.to_text, objection.guard));
    if (objection.bar != Bar::none)
        refuse_bar(row_of, row.slot, *question.standing, objection.bar, describe_move(states.from_text, states.to_text));
    if (question.from == core::no_state && states.from_text == nullptr) refuse_first_state(row_of, row.slot, states.to_text, decision.event);
    refuse_transition(row_of, row.slot, states.from_text, states.to_text, decision.event);
}

// What a state change of an update is: its arrow, who makes it, and what the record says of it.
struct Decided {
    int arrow;
    const text* processor;
    Jsonb* remark;
    TimestampTz at;
};

// In a BEFORE trigger, with the managed columns kept.
Decided decide_and_keep(Attachment& attachment, const Row& before, const Row& after, const States& states, Intent* intent, Upkeep* upkeep) {
    const Statement statement = statement_of(*upkeep, before, after);
    const Actor actor = acting(intent, said_by(*attachment.managed, statement));
    const Standing standing = standing_of(attachment, before.slot, actor);
    const Question question = {attachment, states.from, states.to, intent, &standing};
    const int arrow = decide_or_reject(question, versions_of(before, attachment, after, attachment), attachment, before, states);
    keep_move(attachment, standing, arrow, statement, intent, &upkeep->changes);
    return {arrow, actor.name, takes_away(attachment, standing, arrow) ? lost_ownership(standing) : nullptr, standing.moved};
}

// In an AFTER trigger, or without managed columns: what the BEFORE trigger has decided, if it has.
Decided decide_or_take(Attachment& attachment, const Attachment& before_of, const Row& before, const Row& after, const States& states,
                       Intent* intent, const HandoverKey& key) {
    const DecidedChange left = take_decision(key);
    if (left.arrow == no_arrow) {
        if (keeps_columns(attachment)) report_rewritten(before_of, before.slot);
        const Question question = {attachment, states.from, states.to, intent, nullptr};
        return {decide_or_reject(question, versions_of(before, before_of, after, attachment), before_of, before, states), nullptr, nullptr, 0};
    }
    if (attachment.machine->machine->arrows()[left.arrow].to != states.to) report_rewritten(before_of, before.slot);
    return {left.arrow, left.processor, left.remark, left.at};
}

enum class When { before, after };

// One attachment of an updated row. Returns the arrow whose effects are still to be run, or no_arrow. `key`: of the row in the table it was
// in, for what its BEFORE trigger has left.
int apply_update(Attachment& attachment, const Attachment& before_of, const Row& before, const Row& after, When when, const HandoverKey& key,
                 Upkeep* upkeep) {
    check_key(before_of, before.slot, attachment, after.slot);
    const bool keeps = upkeep != nullptr && attachment.managed != nullptr;
    Intent* intent = intent_for(attachment.root, NameStr(attachment.column));
    const States states = states_of(before_of, before, attachment, after, intent);
    if (states.stays) {
        if (keeps) keep_still(attachment, states.to, statement_of(*upkeep, before, after), intent, &upkeep->changes);
        return no_arrow;
    }

    Verdict verdict = {};
    verdict.from = states.from_text;
    verdict.to = states.to_text;
    if (is_recorded(attachment)) {
        verdict.may_wait = made_here(before.tuple);
        verdict.left = HeapTupleHeaderGetXmin(before.tuple->t_data);
        verdict.command = when == When::before ? GetCurrentCommandId(false) : HeapTupleHeaderGetCmin(after.tuple->t_data);
    }
    int arrow = no_arrow;
    if (intent != nullptr && intent->remap && states.to != core::no_state) {
        verdict.event = upgrade_event();
        if (keeps) keep_remap(attachment, states.to, statement_of(*upkeep, before, after), &upkeep->changes);
    } else {
        // A state that the machine does not have came in unseen: no arrow leaves it.
        if (states.from == core::no_state) refuse_transition(before_of, before.slot, states.from_text, states.to_text, nullptr);
        const Decided decided = keeps ? decide_and_keep(attachment, before, after, states, intent, upkeep)
                                      : decide_or_take(attachment, before_of, before, after, states, intent, key);
        arrow = decided.arrow;
        verdict.event = attachment.machine->event_text[arrow];
        verdict.roles = counted_roles(attachment, arrow, decided.remark != nullptr);
        verdict.processor = decided.processor;
        verdict.remark = decided.remark;
        verdict.at = decided.at;
    }
    const ColumnChanges* changes = upkeep == nullptr ? nullptr : &upkeep->changes;
    verdict.waits = attachment.wake && waits_for_time(attachment, after.slot, changes);
    if (keeps && attachment.nresults > 0) verdict.facts = facts_of_result(attachment, statement_of(*upkeep, before, after));
    if (attachment.log_fence) verdict.fence = token_after(attachment, after.slot, changes);
    record(attachment, after.slot, verdict, intent);
    return arrow != no_arrow && attachment.calls[arrow].neffects > 0 ? arrow : no_arrow;
}

}  // namespace

void apply_update_before(Member* member, const Row& before, const Row& after, Upkeep* upkeep) {
    for (int i = 0; i < member->nattachments; ++i) {
        Attachment& attachment = member->attachments[i];
        const HandoverKey key = handover_key(member, i, before.tuple);
        const int arrow = apply_update(attachment, attachment, before, after, When::before, key, upkeep);
        if (!attachment.has_effects) continue;
        if (arrow != no_arrow)
            leave_effects(key, arrow);
        else
            drop_effects(key);
    }
}

void apply_update_after(Member* member, const Row& before, const Row& after) {
    for (int i = 0; i < member->nattachments; ++i) {
        Attachment& attachment = member->attachments[i];
        const int arrow = apply_update(attachment, attachment, before, after, When::after, handover_key(member, i, before.tuple), nullptr);
        if (arrow != no_arrow) run_effects(attachment, arrow, versions_of(before, attachment, after, attachment));
    }
}

void keep_columns_before(Member* member, const Row& before, const Row& after, Upkeep* upkeep) {
    for (int i = 0; i < member->nattachments; ++i) {
        Attachment& attachment = member->attachments[i];
        if (attachment.managed == nullptr) continue;
        Intent* intent = intent_for(attachment.root, NameStr(attachment.column));
        const States states = states_of(attachment, before, attachment, after, intent);
        if (states.stays) {
            keep_still(attachment, states.to, statement_of(*upkeep, before, after), intent, &upkeep->changes);
        } else if (intent != nullptr && intent->remap && states.to != core::no_state) {
            keep_remap(attachment, states.to, statement_of(*upkeep, before, after), &upkeep->changes);
        } else if (states.from != core::no_state) {
            const Decided decided = decide_and_keep(attachment, before, after, states, intent, upkeep);
            leave_decision(handover_key(member, i, before.tuple), decided.arrow, decided.processor, decided.remark, decided.at);
        }
    }
}

void keep_columns_of_new(Member* member, const Row& row, ColumnChanges* changes) {
    for (int i = 0; i < member->nattachments; ++i) {
        const Attachment& attachment = member->attachments[i];
        if (attachment.managed == nullptr) continue;
        bool null;
        Datum value = slot_getattr(row.slot, attachment.state, &null);
        keep_first(attachment, decode_state(attachment, value, null), row.slot, changes);
    }
}

void apply_insert(Member* member, const Row& row) {
    for (int i = 0; i < member->nattachments; ++i) {
        Attachment& attachment = member->attachments[i];
        bool null;
        Datum value = slot_getattr(row.slot, attachment.state, &null);
        const core::StateId to = decode_state(attachment, value, null);
        text* to_text = to == core::no_state ? state_as_text(attachment, value, null) : attachment.machine->state_text[to];
        const RowVersions versions = versions_of({nullptr, nullptr}, attachment, row, attachment);
        const Question question = {attachment, core::no_state, to, nullptr, nullptr};
        const int arrow = decide_or_reject(question, versions, attachment, row, {core::no_state, to, nullptr, to_text, false});
        if (keeps_columns(attachment)) check_first(attachment, to, row.slot);
        Verdict verdict = {};
        verdict.to = to_text;
        verdict.event = attachment.machine->event_text[arrow];
        verdict.command = HeapTupleHeaderGetCmin(row.tuple->t_data);
        verdict.may_wait = true;  // a row of this key may have been deleted earlier in the same statement's triggers
        verdict.waits = attachment.wake && waits_for_time(attachment, row.slot, nullptr);
        if (attachment.log_fence) verdict.fence = token_after(attachment, row.slot, nullptr);
        record(attachment, row.slot, verdict, nullptr);
        run_effects(attachment, arrow, versions);
    }
}

bool may_end(const Attachment& attachment, core::StateId state) noexcept {
    if (attachment.on_delete != OnDelete::terminal) return attachment.on_delete == OnDelete::allow;
    return state != core::no_state && attachment.machine->machine->states()[state].terminal;
}

void apply_delete(Member* member, const Row& row, Ending ending, CommandId command, SubTransactionId subtransaction) {
    for (int i = 0; i < member->nattachments; ++i) {
        Attachment& attachment = member->attachments[i];
        bool null;
        Datum value = slot_getattr(row.slot, attachment.state, &null);
        const core::StateId from = decode_state(attachment, value, null);
        Verdict verdict = {};
        verdict.from = lasting_text(attachment, from, value, null);
        if (!may_end(attachment, from)) refuse_delete(attachment, row.slot, verdict.from);
        verdict.event = event_of(ending);
        verdict.command = command;
        verdict.may_wait = made_here(row.tuple);
        verdict.left = HeapTupleHeaderGetXmin(row.tuple->t_data);
        verdict.subtransaction = subtransaction;
        record(attachment, row.slot, verdict, nullptr);
    }
}

void apply_partition_move(Member* from, const Row& before, Member* to, const Row& after) {
    for (int i = 0; i < to->nattachments; ++i) {
        Attachment& attachment = to->attachments[i];
        for (int j = 0; j < from->nattachments; ++j) {
            Attachment& before_of = from->attachments[j];
            if (before_of.root != attachment.root || strcmp(NameStr(before_of.column), NameStr(attachment.column)) != 0) continue;
            const int arrow = apply_update(attachment, before_of, before, after, When::after, handover_key(from, j, before.tuple), nullptr);
            if (arrow != no_arrow) run_effects(attachment, arrow, versions_of(before, before_of, after, attachment));
        }
    }
}

void run_pending_effects(Member* member, const Row& before, const Row& after) {
    if (!effects_are_pending()) return;
    for (int i = 0; i < member->nattachments; ++i) {
        int arrow;
        if (!take_effects(handover_key(member, i, before.tuple), &arrow)) continue;
        Attachment& attachment = member->attachments[i];
        run_effects(attachment, arrow, versions_of(before, attachment, after, attachment));
    }
}

void forget_state_texts() noexcept { last_unknown_state = nullptr; }

}  // namespace pawl
