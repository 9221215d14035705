// May ereport; owns nothing. See apply.hpp.
#include "guard/apply.hpp"

#include "events/wake.hpp"
#include "guard/handover.hpp"
#include "guard/metadata.hpp"
#include "guard/rejection.hpp"
#include "log/entry_buffer.hpp"
#include "session/observer.hpp"

namespace pawl {

namespace {

text* last_unknown_state = nullptr;  // in the transaction's memory

bool made_here(HeapTuple tuple) {
    return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
}

bool same_state(const Binding& binding, Datum a, bool a_null, Datum b, bool b_null) {
    if (a_null || b_null) return a_null == b_null;
    if (binding.is_enum) return a == b;
    return view(DatumGetTextPP(a)) == view(DatumGetTextPP(b));
}

void check_key(const Binding& before_of, TupleTableSlot* before, const Binding& after_of, TupleTableSlot* after) {
    if (!is_recorded(after_of)) return;
    for (int i = 0; i < after_of.nkeys; ++i) {
        bool old_null, new_null;
        Datum old_value = slot_getattr(before, before_of.keys[i].attribute, &old_null);
        Datum new_value = slot_getattr(after, after_of.keys[i].attribute, &new_null);
        if (old_null || new_null ? old_null != new_null : !same_key_value(after_of.keys[i], old_value, new_value))
            reject_key_change(before_of, before);
    }
}

// A state's text, valid as long as the entry buffer needs it. The text of a state unknown to the machine is allocated
// once for consecutive rows in that state.
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

// Names of reserved events, allocated once a session.
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
    return ending == Ending::deleted ? reserved_event(&deleted, "pawl.delete")
                                     : reserved_event(&truncated, "pawl.truncate");
}

text* upgrade_event() {
    static text* upgrade = nullptr;
    return reserved_event(&upgrade, "pawl.upgrade");
}

// On a subscriber the columns have the publisher's values.
bool manages_columns(const Binding& binding) {
    return binding.managed != nullptr && SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA;
}

Statement statement_of(const ManagedUpdate& managed_update, const Row& before, const Row& after) {
    return {managed_update.updated, before.slot, after.slot};
}

[[noreturn]] void report_rewritten(const Binding& binding, TupleTableSlot* row) {
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("a trigger changed the state after the managed columns were set"),
             errdetail("%s: a BEFORE UPDATE trigger sorts after the validating trigger.", describe_row(binding, row)),
             errhint("Rename that trigger so that it sorts before \"~pawl_validate\".")));
}

// Records a state change: wakes waiters, counts it, and puts it into the entry buffer or hands it to the function that
// asked for it.
void record(const Binding& binding, TupleTableSlot* row, const Outcome& outcome, Intent* intent) {
    if (binding.wake && !outcome.waits) note_claimable(binding, outcome.to);
    if (observer.changed != nullptr) observer.changed(binding, outcome);
    if (!writes_entries(binding)) return;
    if (intent != nullptr && intent->capture != nullptr && intent->captured == nullptr)
        intent->captured = make_change_in(intent->capture, binding, row, outcome, intent);
    else
        buffer_change(binding, row, outcome, intent);
}

// The states of a row before and after; if the row changes partition, the bindings differ.
struct States {
    core::StateId from, to;
    text* from_text;
    text* to_text;
    bool stays;  // the state is the same, and no self-transition is meant
};

States states_of(const Binding& before_of, const Row& before, const Binding& after_of, const Row& after,
                 const Intent* intent) {
    bool old_null, new_null;
    const Datum old_value = slot_getattr(before.slot, before_of.state, &old_null);
    const Datum new_value = slot_getattr(after.slot, after_of.state, &new_null);
    States states = {core::no_state, decode_state(after_of, new_value, new_null), nullptr, nullptr, false};
    states.stays = same_state(after_of, old_value, old_null, new_value, new_null) &&
                   !is_self_transition(after_of, states.to, intent);
    if (states.stays) return states;
    states.from = decode_state(before_of, old_value, old_null);
    states.from_text = lasting_text(before_of, states.from, old_value, old_null);
    states.to_text = states.to == core::no_state ? state_as_text(after_of, new_value, new_null)
                                                 : after_of.machine->state_text[states.to];
    return states;
}

// Returns the decided transition or raises the rejection. `row_of`: the binding of the row's table, for the error.
int decide_or_reject(const Question& question, const RowVersions& versions, const Binding& row_of, const Row& row,
                     const States& states) {
    const Decision decision = decide(question, versions);
    if (decision.transition != no_transition) return decision.transition;
    const RejectionReason& reason = decision.reason;
    if (reason.guard != nullptr)
        raise(rejected_by_guard(row_of, row.slot, states.from_text, states.to_text, reason.guard));
    if (reason.fault != OwnershipFault::none)
        reject_ownership(row_of, row.slot, *question.ownership, reason.fault,
                         describe_move(states.from_text, states.to_text));
    if (question.from == core::no_state && states.from_text == nullptr)
        reject_initial_state(row_of, row.slot, states.to_text, decision.event);
    reject_transition(row_of, row.slot, states.from_text, states.to_text, decision.event);
}

// A decided update: its transition, the acting processor, metadata to add (may be null) and its time.
struct Decided {
    int transition;
    const text* processor;
    Jsonb* added;
    TimestampTz at;
};

// In a BEFORE trigger: decides, and sets the managed columns.
Decided decide_and_set(Binding& binding, const Row& before, const Row& after, const States& states, Intent* intent,
                       ManagedUpdate* managed_update) {
    const Statement statement = statement_of(*managed_update, before, after);
    const Actor actor = acting(intent, actor_in(*binding.managed, statement));
    const Ownership ownership = ownership_of(binding, before.slot, actor);
    const Question question = {binding, states.from, states.to, intent, &ownership};
    const int transition =
        decide_or_reject(question, versions_of(before, binding, after, binding), binding, before, states);
    set_for_transition(binding, ownership, transition, statement, intent, &managed_update->changes);
    return {transition, actor.name, takes_away(binding, ownership, transition) ? lost_ownership(ownership) : nullptr,
            ownership.moved};
}

// In an AFTER trigger, or without managed columns: takes the decision of the BEFORE trigger, or decides if there is
// none.
Decided decide_or_take(Binding& binding, const Binding& before_of, const Row& before, const Row& after,
                       const States& states, Intent* intent, const HandoverKey& key) {
    const DecidedChange left = take_decision(key);
    if (left.transition == no_transition) {
        if (manages_columns(binding)) report_rewritten(before_of, before.slot);
        const Question question = {binding, states.from, states.to, intent, nullptr};
        return {decide_or_reject(question, versions_of(before, before_of, after, binding), before_of, before, states),
                nullptr, nullptr, 0};
    }
    if (binding.machine->machine->transitions()[left.transition].to != states.to)
        report_rewritten(before_of, before.slot);
    return {left.transition, left.processor, left.added, left.at};
}

enum class When { before, after };

// Applies an update to one binding of the row. Returns the transition whose effects have still to run, or
// no_transition. `key`: of the old version, by which the BEFORE trigger has left its decision.
int apply_update(Binding& binding, const Binding& before_of, const Row& before, const Row& after, When when,
                 const HandoverKey& key, ManagedUpdate* managed_update) {
    check_key(before_of, before.slot, binding, after.slot);
    const bool keeps = managed_update != nullptr && binding.managed != nullptr;
    Intent* intent = intent_for(binding.root, NameStr(binding.column));
    const States states = states_of(before_of, before, binding, after, intent);
    if (states.stays) {
        if (keeps)
            set_without_transition(binding, states.to, statement_of(*managed_update, before, after), intent,
                                   &managed_update->changes);
        return no_transition;
    }

    Outcome outcome = {};
    outcome.from = states.from_text;
    outcome.to = states.to_text;
    if (is_recorded(binding)) {
        outcome.may_wait = made_here(before.tuple);
        outcome.left = HeapTupleHeaderGetXmin(before.tuple->t_data);
        outcome.command =
            when == When::before ? GetCurrentCommandId(false) : HeapTupleHeaderGetCmin(after.tuple->t_data);
    }
    int transition = no_transition;
    if (intent != nullptr && intent->remap && states.to != core::no_state) {
        outcome.event = upgrade_event();
        if (keeps)
            set_for_remap(binding, states.to, statement_of(*managed_update, before, after), &managed_update->changes);
    } else {
        // A state that is unknown to the machine was stored without validation: no transition leaves it.
        if (states.from == core::no_state)
            reject_transition(before_of, before.slot, states.from_text, states.to_text, nullptr);
        const Decided decided = keeps ? decide_and_set(binding, before, after, states, intent, managed_update)
                                      : decide_or_take(binding, before_of, before, after, states, intent, key);
        transition = decided.transition;
        outcome.event = binding.machine->event_text[transition];
        outcome.roles = counted_roles(binding, transition, decided.added != nullptr);
        outcome.processor = decided.processor;
        outcome.added = decided.added;
        outcome.at = decided.at;
    }
    const ColumnChanges* changes = managed_update == nullptr ? nullptr : &managed_update->changes;
    outcome.waits = binding.wake && waits_for_time(binding, after.slot, changes);
    if (keeps && binding.nresults > 0)
        outcome.facts = facts_of_result(binding, statement_of(*managed_update, before, after));
    if (binding.logs_token) outcome.token = token_after(binding, after.slot, changes);
    record(binding, after.slot, outcome, intent);
    return transition != no_transition && binding.calls[transition].neffects > 0 ? transition : no_transition;
}

}  // namespace

void apply_update_before(Member* member, const Row& before, const Row& after, ManagedUpdate* managed_update) {
    for (int i = 0; i < member->nbindings; ++i) {
        Binding& binding = member->bindings[i];
        const HandoverKey key = handover_key(member, i, before.tuple);
        const int transition = apply_update(binding, binding, before, after, When::before, key, managed_update);
        if (!binding.has_effects) continue;
        if (transition != no_transition)
            leave_effects(key, transition);
        else
            drop_effects(key);
    }
}

void apply_update_after(Member* member, const Row& before, const Row& after) {
    for (int i = 0; i < member->nbindings; ++i) {
        Binding& binding = member->bindings[i];
        const int transition =
            apply_update(binding, binding, before, after, When::after, handover_key(member, i, before.tuple), nullptr);
        if (transition != no_transition) run_effects(binding, transition, versions_of(before, binding, after, binding));
    }
}

void set_columns_before(Member* member, const Row& before, const Row& after, ManagedUpdate* managed_update) {
    for (int i = 0; i < member->nbindings; ++i) {
        Binding& binding = member->bindings[i];
        if (binding.managed == nullptr) continue;
        Intent* intent = intent_for(binding.root, NameStr(binding.column));
        const States states = states_of(binding, before, binding, after, intent);
        if (states.stays) {
            set_without_transition(binding, states.to, statement_of(*managed_update, before, after), intent,
                                   &managed_update->changes);
        } else if (intent != nullptr && intent->remap && states.to != core::no_state) {
            set_for_remap(binding, states.to, statement_of(*managed_update, before, after), &managed_update->changes);
        } else if (states.from != core::no_state) {
            const Decided decided = decide_and_set(binding, before, after, states, intent, managed_update);
            leave_decision(handover_key(member, i, before.tuple), decided.transition, decided.processor, decided.added,
                           decided.at);
        }
    }
}

void set_columns_of_new(Member* member, const Row& row, ColumnChanges* changes) {
    for (int i = 0; i < member->nbindings; ++i) {
        const Binding& binding = member->bindings[i];
        if (binding.managed == nullptr) continue;
        bool null;
        Datum value = slot_getattr(row.slot, binding.state, &null);
        set_for_new_row(binding, decode_state(binding, value, null), row.slot, changes);
    }
}

void apply_insert(Member* member, const Row& row) {
    for (int i = 0; i < member->nbindings; ++i) {
        Binding& binding = member->bindings[i];
        bool null;
        Datum value = slot_getattr(row.slot, binding.state, &null);
        const core::StateId to = decode_state(binding, value, null);
        text* to_text = to == core::no_state ? state_as_text(binding, value, null) : binding.machine->state_text[to];
        const RowVersions versions = versions_of({nullptr, nullptr}, binding, row, binding);
        const Question question = {binding, core::no_state, to, nullptr, nullptr};
        const int transition =
            decide_or_reject(question, versions, binding, row, {core::no_state, to, nullptr, to_text, false});
        if (manages_columns(binding)) check_new_row(binding, to, row.slot);
        Outcome outcome = {};
        outcome.to = to_text;
        outcome.event = binding.machine->event_text[transition];
        outcome.command = HeapTupleHeaderGetCmin(row.tuple->t_data);
        outcome.may_wait = true;  // a row of this key may have been deleted earlier in the same statement's triggers
        outcome.waits = binding.wake && waits_for_time(binding, row.slot, nullptr);
        if (binding.logs_token) outcome.token = token_after(binding, row.slot, nullptr);
        record(binding, row.slot, outcome, nullptr);
        run_effects(binding, transition, versions);
    }
}

bool may_end(const Binding& binding, core::StateId state) noexcept {
    if (binding.on_delete != OnDelete::terminal) return binding.on_delete == OnDelete::allow;
    return state != core::no_state && binding.machine->machine->states()[state].terminal;
}

void apply_delete(Member* member, const Row& row, Ending ending, CommandId command, SubTransactionId subtransaction) {
    for (int i = 0; i < member->nbindings; ++i) {
        Binding& binding = member->bindings[i];
        bool null;
        Datum value = slot_getattr(row.slot, binding.state, &null);
        const core::StateId from = decode_state(binding, value, null);
        Outcome outcome = {};
        outcome.from = lasting_text(binding, from, value, null);
        if (!may_end(binding, from)) reject_delete(binding, row.slot, outcome.from);
        outcome.event = event_of(ending);
        outcome.command = command;
        outcome.may_wait = made_here(row.tuple);
        outcome.left = HeapTupleHeaderGetXmin(row.tuple->t_data);
        outcome.subtransaction = subtransaction;
        record(binding, row.slot, outcome, nullptr);
    }
}

void apply_partition_move(Member* from, const Row& before, Member* to, const Row& after) {
    for (int i = 0; i < to->nbindings; ++i) {
        Binding& binding = to->bindings[i];
        for (int j = 0; j < from->nbindings; ++j) {
            Binding& before_of = from->bindings[j];
            if (before_of.root != binding.root || strcmp(NameStr(before_of.column), NameStr(binding.column)) != 0)
                continue;
            const int transition = apply_update(binding, before_of, before, after, When::after,
                                                handover_key(from, j, before.tuple), nullptr);
            if (transition != no_transition)
                run_effects(binding, transition, versions_of(before, before_of, after, binding));
        }
    }
}

void run_pending_effects(Member* member, const Row& before, const Row& after) {
    if (!effects_are_pending()) return;
    for (int i = 0; i < member->nbindings; ++i) {
        int transition;
        if (!take_effects(handover_key(member, i, before.tuple), &transition)) continue;
        Binding& binding = member->bindings[i];
        run_effects(binding, transition, versions_of(before, binding, after, binding));
    }
}

void forget_state_texts() noexcept {
    last_unknown_state = nullptr;
}

}  // namespace pawl
