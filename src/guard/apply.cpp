// May ereport; owns nothing. See apply.hpp.
#include "guard/apply.hpp"

#include "events/wake.hpp"
#include "guard/decide_write.hpp"
#include "guard/entry.hpp"
#include "guard/metadata.hpp"
#include "log/entry_buffer.hpp"
#include "log/predecessor.hpp"
#include "session/observer.hpp"

namespace pawl {

namespace {

// Notes when the old version of the row was made.
void note_old(const Row& before, Outcome* outcome) {
    HeapTupleHeader old = before.tuple->t_data;
    outcome->left = HeapTupleHeaderGetXmin(old);
    outcome->may_wait = TransactionIdIsCurrentTransactionId(outcome->left);
    if (outcome->may_wait) outcome->born = HeapTupleHeaderGetCmin(old);
    outcome->born_new = (old->t_infomask & HEAP_UPDATED) == 0;
}

core::StateId state_in(const Binding& binding, TupleTableSlot* row) {
    bool null;
    const Datum value = slot_getattr(row, binding.state, &null);
    return decode_state(binding, value, null);
}

// pawl.validate finds rows in unknown states by their key.
bool is_found_by_key(const Binding& binding, TupleTableSlot* row) {
    return is_recorded(binding) || (!binding.validated && state_in(binding, row) == core::no_state);
}

void check_key(const Binding& before_of, TupleTableSlot* before, const Binding& after_of, TupleTableSlot* after) {
    if (!is_found_by_key(before_of, before)) return;
    for (int i = 0; i < after_of.nkeys; ++i) {
        bool old_null, new_null;
        Datum old_value = slot_getattr(before, before_of.keys[i].attribute, &old_null);
        Datum new_value = slot_getattr(after, after_of.keys[i].attribute, &new_null);
        if (old_null || new_null ? old_null != new_null : !same_key_value(after_of.keys[i], old_value, new_value))
            reject_key_change(before_of, before);
    }
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

text* place_event() {
    static text* place = nullptr;
    return reserved_event(&place, "pawl.place");
}

// On a subscriber the columns have the publisher's values.
bool manages_columns(const Binding& binding) {
    return binding.managed != nullptr && SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA;
}

// Records the state changes of one write: wakes waiters, counts them, and puts them into the entry buffer. The only one
// is left to the function that asked for it instead, if there is one.
void record(const Binding& binding, TupleTableSlot* row, const Outcome* outcomes, int n, Intent* intent) {
    const Outcome& last = outcomes[n - 1];
    if (binding.wake && !last.waits) note_claimable(binding, last.to);
    for (int i = 0; observer.changed != nullptr && i < n; ++i) observer.changed(binding, outcomes[i]);
    if (!writes_entries(binding)) return;
    if (intent == nullptr || intent->capture == nullptr || intent->captured != nullptr)
        return buffer_changes(binding, row, outcomes, n, intent);
    intent->captured = make_change_in(intent->capture, binding, row, last, intent);
    begin_request(*intent->captured);
}

// The outcomes of a path. *first has what all have in common, and becomes the first of them.
Outcome* outcomes_of(const Binding& binding, const Path& path, const States& states, Outcome* first) {
    const core::Machine& machine = *binding.machine->machine;
    Outcome* outcomes = path.n == 1 ? first : static_cast<Outcome*>(palloc(sizeof(Outcome) * path.n));
    outcomes[0] = *first;
    for (int i = 0; i < path.n; ++i) {
        const PathStep& step = path.steps[i];
        Outcome& outcome = outcomes[i];
        if (i > 0) outcome = *first;
        outcome.from = i == 0 ? states.from_text : outcomes[i - 1].to;
        outcome.to = binding.machine->state_text[machine.transitions()[step.transition].to];
        outcome.event = binding.machine->event_text[step.transition];
        outcome.roles = counted_roles(binding, step.transition, step.added != nullptr);
        outcome.processor = step.processor;
        outcome.added = step.added;
        outcome.at = step.at;
        outcome.token = step.token;
    }
    return outcomes;
}

enum class When { before, after };

Write write_of(const Member& member, Binding& binding, const Binding& before_of, const Row& before, const Row& after) {
    return {member, binding, before_of, before, after, intent_for(binding.root, NameStr(binding.column))};
}

bool has_effects(const Binding& binding, const Path& path) {
    for (int i = 0; i < path.n; ++i)
        if (binding.calls[path.steps[i].transition].neffects > 0) return true;
    return false;
}

Outcome first_outcome(const Write& write, When when) {
    Outcome outcome = {};
    if (!is_recorded(write.binding)) return outcome;
    note_old(write.before, &outcome);
    if (when == When::after) outcome.made = HeapTupleHeaderGetCmin(write.after.tuple->t_data);
    outcome.command = when == When::before ? GetCurrentCommandId(false) : outcome.made;
    return outcome;
}

// The row takes no transition: pawl.upgrade or pawl.place writes its state.
void apply_remap(const Write& write, const States& states, ManagedUpdate* managed_update, Outcome* outcome) {
    Intent* intent = write.intent;
    outcome->from = states.from_text;
    outcome->to = states.to_text;
    outcome->event = intent->placement != nullptr ? place_event() : upgrade_event();
    outcome->placement = intent->placement;
    // a trigger of the table may have written another state
    if (intent->placement != nullptr && view(outcome->to) != view(intent->placement->to))
        reject_transition(write.before_of, write.before.slot, states.from_text, states.to_text, nullptr);
    if (managed_update != nullptr)
        set_for_remap(write.binding, states.to, statement_of(*managed_update, write.before, write.after), intent,
                      &managed_update->changes);
}

// Takes the decision of the BEFORE trigger, if this is the AFTER trigger and managed columns were set there. `states`:
// as they are by the settings of now, which a function of the statement may have changed since.
bool take_decision(const Write& write, const HandoverKey& key, States* states, Decided* decided) {
    if (!take_decision(key, decided)) return false;
    require_as_set(write, *decided);
    const bool remaps = write.intent != nullptr && write.intent->remap;
    if (decided->path.n > 0)
        *states = moving_states_of(write.before_of, write.before, write.binding, write.after);
    else if (states->from == states->to && states->from != core::no_state && !remaps)
        states->stays = true;
    return true;
}

// Applies an update to one binding of the row. *path: the transitions whose effects have still to run. `key`: of the
// old version, by which the BEFORE trigger has left its decision. `managed_update`: null in the AFTER trigger, and
// without managed columns.
void apply_update(const Write& write, When when, const HandoverKey& key, ManagedUpdate* managed_update, Path* path) {
    Binding& binding = write.binding;
    path->n = 0;
    check_key(write.before_of, write.before.slot, binding, write.after.slot);
    if (binding.managed == nullptr) managed_update = nullptr;
    States states = states_of(write.before_of, write.before, binding, write.after, write.intent);
    Decided decided = {};
    const bool keeps = when == When::after && manages_columns(binding);
    const bool is_left = keeps && take_decision(write, key, &states, &decided);
    let_enter(binding, &states);
    if (states.stays) {
        if (is_recorded(binding)) {
            note_other_write(write.before_of, write.before.slot, write.before.tuple);
            if (when == When::after) note_no_change(binding, write.after.slot, write.after.tuple);
        }
        if (managed_update != nullptr && !loses_stray_owner(binding, states.to, write.before, write.after))
            set_without_transition(binding, states.to, statement_of(*managed_update, write.before, write.after),
                                   write.intent, &managed_update->changes);
        return;
    }
    Outcome outcome = first_outcome(write, when);
    Outcome* outcomes = &outcome;
    if (write.intent != nullptr && write.intent->remap && states.to != core::no_state) {
        apply_remap(write, states, managed_update, &outcome);
    } else {
        // A state that is unknown to the machine was stored without validation: no transition leaves it.
        if (states.from == core::no_state && !states.enters)
            reject_transition(write.before_of, write.before.slot, states.from_text, states.to_text, nullptr);
        if (is_left && decided.path.n > 0) {
            require_as_decided(write, decided, states);
            *path = decided.path;
        } else if (keeps) {
            reject_rewritten_state(write);
        } else {
            decide_write(write, states, managed_update, path);
        }
        outcomes = outcomes_of(binding, *path, states, &outcome);
    }
    const ColumnChanges* changes = managed_update == nullptr ? nullptr : &managed_update->changes;
    if (managed_update != nullptr && binding.nresults > 0)
        outcomes->facts = facts_of_result(binding, statement_of(*managed_update, write.before, write.after));
    Outcome& last = outcomes[Max(path->n, 1) - 1];
    last.waits = binding.wake && waits_for_time(binding, write.after.slot, changes);
    if (binding.logs_token) last.token = token_after(binding, write.after.slot, changes);
    record(binding, write.after.slot, outcomes, Max(path->n, 1), write.intent);
    if (!has_effects(binding, *path)) path->n = 0;
}

}  // namespace

void apply_update_before(Member* member, const Row& before, const Row& after, ManagedUpdate* managed_update) {
    for (int i = 0; i < member->nbindings; ++i) {
        Binding& binding = member->bindings[i];
        const HandoverKey key = handover_key(member, i, before.tuple);
        Path path;
        apply_update(write_of(*member, binding, binding, before, after), When::before, key, managed_update, &path);
        if (!binding.has_effects) continue;
        if (path.n > 0)
            leave_effects(key, path);
        else
            drop_effects(key);
    }
}

void apply_update_after(Member* member, const Row& before, const Row& after) {
    for (int i = 0; i < member->nbindings; ++i) {
        Binding& binding = member->bindings[i];
        Path path;
        apply_update(write_of(*member, binding, binding, before, after), When::after,
                     handover_key(member, i, before.tuple), nullptr, &path);
        run_effects_of(member->relid, binding, binding, transitions_of(path), before, after);
    }
}

void set_columns_before(Member* member, const Row& before, const Row& after, ManagedUpdate* managed_update) {
    for (int i = 0; i < member->nbindings; ++i) {
        Binding& binding = member->bindings[i];
        if (binding.managed == nullptr) continue;
        const Write write = write_of(*member, binding, binding, before, after);
        States states = states_of(binding, before, binding, after, write.intent);
        let_enter(binding, &states);
        Decided decided = {};
        if (states.stays) {
            if (!loses_stray_owner(binding, states.to, before, after))
                set_without_transition(binding, states.to, statement_of(*managed_update, before, after), write.intent,
                                       &managed_update->changes);
        } else if (write.intent != nullptr && write.intent->remap && states.to != core::no_state) {
            set_for_remap(binding, states.to, statement_of(*managed_update, before, after), write.intent,
                          &managed_update->changes);
        } else if (states.from != core::no_state || states.enters) {
            decide_write(write, states, managed_update, &decided.path);
        }
        decided.fingerprint =
            fingerprint_of(*member, binding, after.slot, &managed_update->changes, has_guards(binding, decided.path));
        leave_decision(handover_key(member, i, before.tuple), decided);
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
            decide_or_reject(question, versions, binding, row, {core::no_state, to, nullptr, to_text, false, nullptr});
        if (manages_columns(binding)) check_new_row(binding, to, row.slot);
        Outcome outcome = {};
        outcome.to = to_text;
        outcome.event = binding.machine->event_text[transition];
        outcome.command = outcome.made = HeapTupleHeaderGetCmin(row.tuple->t_data);
        outcome.may_wait = true;  // a row of this key may have been deleted earlier in the same statement's triggers
        outcome.waits = binding.wake && waits_for_time(binding, row.slot, nullptr);
        if (binding.logs_token) outcome.token = token_after(binding, row.slot, nullptr);
        record(binding, row.slot, &outcome, 1, nullptr);
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
        note_old(row, &outcome);
        outcome.subtransaction = subtransaction;
        record(binding, row.slot, &outcome, 1, nullptr);
    }
}

void apply_partition_move(Member* from, const Row& before, Member* to, const Row& after) {
    for (int i = 0; i < to->nbindings; ++i) {
        Binding& binding = to->bindings[i];
        for (int j = 0; j < from->nbindings; ++j) {
            Binding& before_of = from->bindings[j];
            if (before_of.root != binding.root || strcmp(NameStr(before_of.column), NameStr(binding.column)) != 0)
                continue;
            Path path;
            apply_update(write_of(*to, binding, before_of, before, after), When::after,
                         handover_key(from, j, before.tuple), nullptr, &path);
            run_effects_of(to->relid, binding, before_of, transitions_of(path), before, after);
        }
    }
}

void run_pending_effects(Member* member, const Row& before, const Row& after) {
    if (!effects_are_pending()) return;
    for (int i = 0; i < member->nbindings; ++i) {
        Transitions transitions;
        if (!take_effects(handover_key(member, i, before.tuple), &transitions)) continue;
        Binding& binding = member->bindings[i];
        run_effects_of(member->relid, binding, binding, transitions, before, after);
    }
}

}  // namespace pawl
