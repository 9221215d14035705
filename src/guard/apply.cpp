// May ereport; owns nothing. See apply.hpp.
#include "guard/apply.hpp"

#include "events/wake.hpp"
#include "guard/entry.hpp"
#include "guard/handover.hpp"
#include "guard/metadata.hpp"
#include "guard/rejection.hpp"
#include "guard/row_states.hpp"
#include "log/entry_buffer.hpp"
#include "session/observer.hpp"

namespace pawl {

namespace {

bool made_here(HeapTuple tuple) {
    return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
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

// Records the state changes of one write: wakes waiters, counts them, and puts them into the entry buffer. The only one
// is left to the function that asked for it instead, if there is one.
void record(const Binding& binding, TupleTableSlot* row, const Outcome* outcomes, int n, Intent* intent) {
    const Outcome& last = outcomes[n - 1];
    if (binding.wake && !last.waits) note_claimable(binding, last.to);
    for (int i = 0; observer.changed != nullptr && i < n; ++i) observer.changed(binding, outcomes[i]);
    if (!writes_entries(binding)) return;
    if (intent != nullptr && intent->capture != nullptr && intent->captured == nullptr)
        intent->captured = make_change_in(intent->capture, binding, row, last, intent);
    else
        buffer_changes(binding, row, outcomes, n, intent);
}

// Returns the decided transition or raises the rejection. `row_of`: the binding of the row's table, for the error.
int decide_or_reject(const Question& question, const RowVersions& versions, const Binding& row_of, const Row& row,
                     const States& states) {
    const Decision decision = decide(question, versions);
    if (decision.transition != no_transition) return decision.transition;
    const RejectionReason& reason = decision.reason;
    if (reason.guard != nullptr)
        raise(row_of, rejected_by_guard(row_of, row.slot, states.from_text, states.to_text, reason.guard));
    if (reason.fault != OwnershipFault::none)
        reject_ownership(row_of, row.slot, *question.ownership, reason.fault,
                         describe_move(states.from_text, states.to_text));
    if (question.from == core::no_state && states.from_text == nullptr)
        reject_initial_state(row_of, row.slot, states.to_text, decision.event, !states.enters);
    reject_transition(row_of, row.slot, states.from_text, states.to_text, decision.event);
}

void decide_entry(Binding& binding, const Binding& before_of, const Row& before, const Row& after, const States& states,
                  Intent* intent, ManagedUpdate* managed_update, Path* path) {
    if (states.events != nullptr) reject_transition(before_of, before.slot, nullptr, states.to_text, nullptr);
    const Question question = {binding, states.from, states.to, intent, nullptr};
    path->n = 1;
    path->steps[0] = {
        decide_or_reject(question, versions_of(before, before_of, after, binding), before_of, before, states), nullptr,
        nullptr, 0, -1};
    if (managed_update != nullptr)
        set_for_entry(binding, states.to, statement_of(*managed_update, before, after), &managed_update->changes);
}

// Decides the events that were listed.
void walk_or_reject(const Walk& asked, Path* path) {
    if (const Rejection* rejection = walk(asked, path)) raise(asked.binding, *rejection);
}

// In a BEFORE trigger: decides, and sets the managed columns.
void decide_and_set(Oid relation, Binding& binding, const Row& before, const Row& after, const States& states,
                    Intent* intent, ManagedUpdate* managed_update, Path* path) {
    if (states.enters) return decide_entry(binding, binding, before, after, states, intent, managed_update, path);
    if (states.events != nullptr)
        return walk_or_reject(
            {relation, binding, binding, before, after, states.from, states.to, *states.events, intent, managed_update},
            path);
    const Statement statement = statement_of(*managed_update, before, after);
    const Actor actor = acting(intent, actor_in(*binding.managed, statement));
    const Ownership ownership = ownership_of(binding, before.slot, actor);
    const Question question = {binding, states.from, states.to, intent, &ownership};
    const int transition =
        decide_or_reject(question, versions_of(before, binding, after, binding), binding, before, states);
    set_for_transition(binding, ownership, transition, statement, intent, &managed_update->changes);
    path->n = 1;
    path->steps[0] = {transition, actor.name,
                      takes_away(binding, ownership, transition) ? lost_ownership(ownership) : nullptr, ownership.moved,
                      -1};
}

// In an AFTER trigger, or without managed columns: takes the decision of the BEFORE trigger, or decides if there is
// none.
void decide_or_take(Oid relation, Binding& binding, const Binding& before_of, const Row& before, const Row& after,
                    const States& states, Intent* intent, const HandoverKey& key, Path* path) {
    take_decision(key, path);
    if (path->n > 0) {
        if (binding.machine->machine->transitions()[path->steps[path->n - 1].transition].to != states.to)
            report_rewritten(before_of, before.slot);
        return;
    }
    if (manages_columns(binding)) report_rewritten(before_of, before.slot);
    if (states.enters) return decide_entry(binding, before_of, before, after, states, intent, nullptr, path);
    if (states.events != nullptr)
        return walk_or_reject(
            {relation, binding, before_of, before, after, states.from, states.to, *states.events, intent, nullptr},
            path);
    const Question question = {binding, states.from, states.to, intent, nullptr};
    path->n = 1;
    path->steps[0] = {
        decide_or_reject(question, versions_of(before, before_of, after, binding), before_of, before, states), nullptr,
        nullptr, 0, -1};
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

bool has_effects(const Binding& binding, const Path& path) {
    for (int i = 0; i < path.n; ++i)
        if (binding.calls[path.steps[i].transition].neffects > 0) return true;
    return false;
}

// Applies an update to one binding of the row. *path: the transitions whose effects have still to run. `key`: of the
// old version, by which the BEFORE trigger has left its decision.
void apply_update(Oid relation, Binding& binding, const Binding& before_of, const Row& before, const Row& after,
                  When when, const HandoverKey& key, ManagedUpdate* managed_update, Path* path) {
    path->n = 0;
    check_key(before_of, before.slot, binding, after.slot);
    const bool keeps = managed_update != nullptr && binding.managed != nullptr;
    Intent* intent = intent_for(binding.root, NameStr(binding.column));
    States states = states_of(before_of, before, binding, after, intent);
    let_enter(binding, &states);
    if (states.stays) {
        if (keeps && !loses_stray_owner(binding, states.to, before, after))
            set_without_transition(binding, states.to, statement_of(*managed_update, before, after), intent,
                                   &managed_update->changes);
        return;
    }

    Outcome outcome = {};
    Outcome* outcomes = &outcome;
    if (is_recorded(binding)) {
        outcome.may_wait = made_here(before.tuple);
        outcome.left = HeapTupleHeaderGetXmin(before.tuple->t_data);
        outcome.command =
            when == When::before ? GetCurrentCommandId(false) : HeapTupleHeaderGetCmin(after.tuple->t_data);
    }
    if (intent != nullptr && intent->remap && states.to != core::no_state) {
        outcome.from = states.from_text;
        outcome.to = states.to_text;
        outcome.event = intent->placement != nullptr ? place_event() : upgrade_event();
        outcome.placement = intent->placement;
        // a trigger of the table may have written another state
        if (intent->placement != nullptr && view(outcome.to) != view(intent->placement->to))
            reject_transition(before_of, before.slot, states.from_text, states.to_text, nullptr);
        if (keeps)
            set_for_remap(binding, states.to, statement_of(*managed_update, before, after), intent,
                          &managed_update->changes);
    } else {
        // A state that is unknown to the machine was stored without validation: no transition leaves it.
        if (states.from == core::no_state && !states.enters)
            reject_transition(before_of, before.slot, states.from_text, states.to_text, nullptr);
        if (keeps)
            decide_and_set(relation, binding, before, after, states, intent, managed_update, path);
        else
            decide_or_take(relation, binding, before_of, before, after, states, intent, key, path);
        outcomes = outcomes_of(binding, *path, states, &outcome);
    }
    const ColumnChanges* changes = managed_update == nullptr ? nullptr : &managed_update->changes;
    if (keeps && binding.nresults > 0)
        outcomes->facts = facts_of_result(binding, statement_of(*managed_update, before, after));
    Outcome& last = outcomes[Max(path->n, 1) - 1];
    last.waits = binding.wake && waits_for_time(binding, after.slot, changes);
    if (binding.logs_token) last.token = token_after(binding, after.slot, changes);
    record(binding, after.slot, outcomes, Max(path->n, 1), intent);
    if (!has_effects(binding, *path)) path->n = 0;
}

void run_effects_of(Oid relation, Binding& binding, const Binding& before_of, const Path& path, const Row& before,
                    const Row& after) {
    Transitions transitions;
    transitions.n = path.n;
    for (int i = 0; i < path.n; ++i) transitions.transitions[i] = path.steps[i].transition;
    run_effects_of(relation, binding, before_of, transitions, before, after);
}

}  // namespace

void apply_update_before(Member* member, const Row& before, const Row& after, ManagedUpdate* managed_update) {
    for (int i = 0; i < member->nbindings; ++i) {
        Binding& binding = member->bindings[i];
        const HandoverKey key = handover_key(member, i, before.tuple);
        Path path;
        apply_update(member->relid, binding, binding, before, after, When::before, key, managed_update, &path);
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
        apply_update(member->relid, binding, binding, before, after, When::after, handover_key(member, i, before.tuple),
                     nullptr, &path);
        run_effects_of(member->relid, binding, binding, path, before, after);
    }
}

void set_columns_before(Member* member, const Row& before, const Row& after, ManagedUpdate* managed_update) {
    for (int i = 0; i < member->nbindings; ++i) {
        Binding& binding = member->bindings[i];
        if (binding.managed == nullptr) continue;
        Intent* intent = intent_for(binding.root, NameStr(binding.column));
        States states = states_of(binding, before, binding, after, intent);
        let_enter(binding, &states);
        if (states.stays) {
            if (!loses_stray_owner(binding, states.to, before, after))
                set_without_transition(binding, states.to, statement_of(*managed_update, before, after), intent,
                                       &managed_update->changes);
        } else if (intent != nullptr && intent->remap && states.to != core::no_state) {
            set_for_remap(binding, states.to, statement_of(*managed_update, before, after), intent,
                          &managed_update->changes);
        } else if (states.from != core::no_state || states.enters) {
            Path path;
            decide_and_set(member->relid, binding, before, after, states, intent, managed_update, &path);
            leave_decision(handover_key(member, i, before.tuple), path);
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
            decide_or_reject(question, versions, binding, row, {core::no_state, to, nullptr, to_text, false, nullptr});
        if (manages_columns(binding)) check_new_row(binding, to, row.slot);
        Outcome outcome = {};
        outcome.to = to_text;
        outcome.event = binding.machine->event_text[transition];
        outcome.command = HeapTupleHeaderGetCmin(row.tuple->t_data);
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
        outcome.may_wait = made_here(row.tuple);
        outcome.left = HeapTupleHeaderGetXmin(row.tuple->t_data);
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
            apply_update(to->relid, binding, before_of, before, after, When::after, handover_key(from, j, before.tuple),
                         nullptr, &path);
            run_effects_of(to->relid, binding, before_of, path, before, after);
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
