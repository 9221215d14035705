// May ereport; owns nothing. See path.hpp.
#include "guard/path.hpp"

#include "catalog/generated.hpp"
#include "guard/listed_events.hpp"
#include "guard/metadata.hpp"

namespace pawl {

namespace {

// The column's value for a state of the machine.
Datum state_value(const Binding& binding, core::StateId state) {
    if (!binding.is_enum) return PointerGetDatum(binding.machine->state_text[state]);
    for (int i = 0; i < binding.nlabels; ++i)
        if (binding.label_states[i] == state) return ObjectIdGetDatum(binding.label_oids[i]);
    elog(ERROR, "the type of column \"%s\" has no label for a state of its machine", NameStr(binding.column));
}

// The row with other values in some columns. They are not copied, and no tuple is formed.
TupleTableSlot* with_columns(TupleTableSlot* row, const ColumnChanges& changes, int first) {
    TupleDesc descriptor = row->tts_tupleDescriptor;
    slot_getallattrs(row);
    TupleTableSlot* made = MakeSingleTupleTableSlot(descriptor, &TTSOpsVirtual);
    memcpy(made->tts_values, row->tts_values, sizeof(Datum) * descriptor->natts);
    memcpy(made->tts_isnull, row->tts_isnull, sizeof(bool) * descriptor->natts);
    for (int i = first; i < changes.n; ++i) {
        made->tts_values[changes.columns[i] - 1] = changes.values[i];
        made->tts_isnull[changes.columns[i] - 1] = changes.nulls[i];
    }
    return ExecStoreVirtualTuple(made);
}

// A version of a row that is never stored: between two transitions. It has a tuple only if its table has generated
// columns.
Row row_between(Oid relation, const Binding& binding, const Row& after, core::StateId state,
                const ColumnChanges& changes) {
    ColumnChanges all = changes;
    put_column(&all, binding.state, state_value(binding, state));
    TupleTableSlot* slot = with_columns(after.slot, all, 0);
    TupleDesc descriptor = slot->tts_tupleDescriptor;
    if (descriptor->constr == nullptr || !descriptor->constr->has_generated_stored) return {slot, nullptr};
    HeapTuple tuple = ExecCopySlotHeapTuple(slot);
    ExecDropSingleTupleTableSlot(slot);
    Relation table = table_open(relation, NoLock);
    tuple = with_generated_columns(table, tuple);
    table_close(table, NoLock);
    slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsHeapTuple);
    ExecStoreHeapTuple(tuple, slot, false);
    return {slot, tuple};
}

// For a function that is called with the row.
Row with_tuple(const Row& row) {
    return row.tuple != nullptr ? row : Row{row.slot, ExecCopySlotHeapTuple(row.slot)};
}

// The values stay: some can be in the next version.
void drop(const Row& row) {
    ExecDropSingleTupleTableSlot(row.slot);
}

// Names the event that a rejection is about.
const Rejection* at_event(const EventList& events, int i, Rejection rejection) {
    auto* made = static_cast<Rejection*>(palloc(sizeof(Rejection)));
    *made = rejection;
    if (events.n > 1)
        made->detail = psprintf("%s Event %d of %d: %s.", rejection.detail, i + 1, events.n, quoted_events(events));
    return made;
}

// The transition of the next event from the row `prev`, as decide() chooses one.
struct Choice {
    const Walk& asked;
    int event;  // its index
    const Row& prev;
    const Binding& prev_of;
    core::StateId from;
    const Ownership* ownership;  // null: ownership is not checked
    const ColumnChanges* unset;  // managed columns of a row between, as they are before the transition

    bool is_last() const { return event + 1 == asked.events.n; }

    bool guards_accept(int transition, const char** rejected_by) const {
        Binding& binding = asked.binding;
        if (binding.calls[transition].nguards == 0) return true;
        const core::StateId to = binding.machine->machine->transitions()[transition].to;
        if (is_last() && asked.to != core::no_state)
            return guards_allow(binding, transition, versions_of(with_tuple(prev), prev_of, asked.after, binding),
                                rejected_by);
        const Row next = row_between(asked.relation, binding, asked.after, to, *unset);
        const bool accepted = guards_allow(
            binding, transition, versions_of(with_tuple(prev), prev_of, with_tuple(next), binding), rejected_by);
        drop(next);
        return accepted;
    }

    // Returns no_transition with the reason, and where the rejected transition leads.
    int choose(RejectionReason* reason, core::StateId* rejected) const {
        *reason = {};
        *rejected = core::no_state;
        const Binding& binding = asked.binding;
        const core::Machine& machine = *binding.machine->machine;
        for (std::int32_t transition : machine.leaving(from)) {
            const core::StateId to = machine.transitions()[transition].to;
            if (is_last() && asked.to != core::no_state && to != asked.to) continue;
            if (!has_event(binding, transition, asked.events.events[event])) continue;
            RejectionReason mine = {nullptr, ownership == nullptr ? OwnershipFault::none
                                                                  : ownership_fault(binding, *ownership, transition)};
            if (mine.fault == OwnershipFault::none && guards_accept(transition, &mine.guard)) return transition;
            if (reason->any()) continue;
            *reason = mine;
            *rejected = to;
        }
        return no_transition;
    }

    // Whether the event leads from here to another state than the statement sets.
    bool leads_elsewhere() const {
        for (std::int32_t transition : asked.binding.machine->machine->leaving(from))
            if (has_event(asked.binding, transition, asked.events.events[event])) return true;
        return false;
    }

    const Rejection* reject(const RejectionReason& reason, core::StateId rejected) const {
        const Binding& row_of = asked.before_of;
        const BoundMachine& machine = *asked.binding.machine;
        TupleTableSlot* row = asked.before.slot;
        const text* named = asked.events.events[event];
        const text* here = machine.state_text[from];
        if (reason.guard != nullptr)
            return at_event(asked.events, event,
                            rejected_by_guard(row_of, row, here, machine.state_text[rejected], reason.guard));
        const bool stale = ownership != nullptr && ownership->claim == OwnershipFault::stale_token;
        const OwnershipFault fault = stale ? OwnershipFault::stale_token : reason.fault;
        if (fault != OwnershipFault::none) {
            const char* what = rejected == core::no_state ? psprintf("event \"%s\"", text_to_cstring(named))
                                                          : describe_move(here, machine.state_text[rejected]);
            Rejection rejection = ownership_rejection(row_of, row, *ownership, fault, what);
            if (fault == OwnershipFault::no_attempts) rejection.hint = hint_without_attempt(row_of, here);
            return at_event(asked.events, event, rejection);
        }
        Rejection rejection = is_last() && leads_elsewhere()
                                  ? rejected_transition(row_of, row, here, machine.state_text[asked.to], named)
                                  : rejected_event(row_of, row, from, named);
        if (event > 0)
            rejection.detail =
                psprintf("%s would be in state %s by then.", describe_row(row_of, row), quoted_state(here));
        return at_event(asked.events, event, rejection);
    }
};

// The managed columns along a path. Those that the statement sets itself get its values at the last transition.
class Columns {
public:
    Columns(const Walk& asked)
        : asked_(asked), original_{asked.managed_update->updated, asked.before.slot, asked.after.slot} {
        actor_ = acting(asked.intent, actor_in(*asked.binding.managed, original_));
    }

    // Before the transition of an event: the actor, and what it owns.
    Ownership ownership(const Row& prev, int event) {
        if (asked_.intent != nullptr && asked_.intent->processors != nullptr)
            actor_.name = asked_.intent->processors[event];
        Ownership ownership = ownership_of(asked_.binding, prev.slot, actor_);
        if (event == 0) {
            now_ = ownership.now;
            moved_ = ownership.moved;
        }
        ownership.now = now_;
        ownership.moved = moved_;
        actor_.has_token = false;  // compared once: a transition may raise the row's token
        return ownership;
    }

    // After a transition that is not the last: what the row between has.
    ColumnChanges between(const Row& prev, const Ownership& ownership, int transition) const {
        ColumnChanges changes = {};
        copy_columns(asked_.binding, prev.slot, &changes);
        const Statement statement = {nullptr, prev.slot, prev.slot};
        set_for_transition(asked_.binding, ownership, transition, statement, asked_.intent, &changes);
        return changes;
    }

    // After the last transition: what the row has.
    void last(const Row& prev, const Ownership& ownership, int transition) const {
        ColumnChanges* changes = &asked_.managed_update->changes;
        const int before = changes->n;
        carry_columns(asked_.binding, original_, prev.slot, changes);
        TupleTableSlot* after = asked_.after.slot;
        if (changes->n == before) return set(prev, after, ownership, transition);
        TupleTableSlot* carried = with_columns(after, *changes, before);
        set(prev, carried, ownership, transition);
        ExecDropSingleTupleTableSlot(carried);
    }

    PathStep step(const Ownership& ownership, int transition, TupleTableSlot* row, const ColumnChanges& changes) const {
        return {transition, actor_.name,
                takes_away(asked_.binding, ownership, transition) ? lost_ownership(ownership) : nullptr, moved_,
                token_after(asked_.binding, row, &changes)};
    }

private:
    void set(const Row& prev, TupleTableSlot* after, const Ownership& ownership, int transition) const {
        const Statement statement = {original_.updated, prev.slot, after};
        set_for_transition(asked_.binding, ownership, transition, statement, asked_.intent,
                           &asked_.managed_update->changes);
    }

    const Walk& asked_;
    Statement original_;
    Actor actor_;
    TimestampTz now_ = 0;
    TimestampTz moved_ = 0;
};

}  // namespace

Transitions transitions_of(const Path& path) {
    Transitions transitions;
    transitions.n = path.n;
    for (int i = 0; i < path.n; ++i) transitions.transitions[i] = path.steps[i].transition;
    return transitions;
}

const Rejection* walk(const Walk& asked, Path* path) {
    Binding& binding = asked.binding;
    const core::Machine& machine = *binding.machine->machine;
    const bool keeps = asked.managed_update != nullptr && binding.managed != nullptr;
    std::optional<Columns> columns;
    if (keeps) columns.emplace(asked);
    Row prev = asked.before;
    core::StateId state = asked.from;
    path->n = 0;
    for (int i = 0; i < asked.events.n; ++i) {
        const Ownership ownership = keeps ? columns->ownership(prev, i) : Ownership{};
        ColumnChanges unset = {};
        if (keeps) copy_columns(binding, prev.slot, &unset);
        const Choice choice = {asked, i, prev, i == 0 ? asked.before_of : binding, state, keeps ? &ownership : nullptr,
                               &unset};
        RejectionReason reason;
        core::StateId rejected;
        const int transition = choice.choose(&reason, &rejected);
        if (transition == no_transition) return choice.reject(reason, rejected);
        state = machine.transitions()[transition].to;
        if (choice.is_last()) {
            if (keeps) columns->last(prev, ownership, transition);
            path->steps[path->n++] =
                keeps ? columns->step(ownership, transition, asked.after.slot, asked.managed_update->changes)
                      : PathStep{transition, nullptr, nullptr, 0, token_after(binding, asked.after.slot, nullptr)};
        } else {
            const ColumnChanges changes = keeps ? columns->between(prev, ownership, transition) : ColumnChanges{};
            const Row next = row_between(asked.relation, binding, asked.after, state, changes);
            path->steps[path->n++] = keeps ? columns->step(ownership, transition, next.slot, changes)
                                           : PathStep{transition, nullptr, nullptr, 0, -1};
            if (i > 0) drop(prev);
            prev = next;
        }
    }
    if (asked.events.n > 1) drop(prev);
    return nullptr;
}

namespace {

// Calls visit(transition, versions) for the transitions of a path in their order, until it returns true. versions()
// makes the two versions of the row that it leads from and to.
template <typename Visit>
void visit_path(Oid relation, Binding& binding, const Binding& before_of, const Transitions& path, const Row& before,
                const Row& after, Visit visit) {
    Row prev = before;
    bool done = false;
    for (int i = 0; !done && i < path.n; ++i) {
        const int transition = path.transitions[i];
        const core::StateId to = binding.machine->machine->transitions()[transition].to;
        const Row next = i + 1 == path.n ? after : row_between(relation, binding, after, to, {});
        done = visit(transition, [&] {
            return versions_of(with_tuple(prev), i == 0 ? before_of : binding, with_tuple(next), binding);
        });
        if (i > 0) drop(prev);
        prev = next;
    }
}

}  // namespace

const char* guard_against(Oid relation, Binding& binding, const Binding& before_of, const Transitions& path,
                          const Row& before, const Row& after) {
    const char* guard = nullptr;
    visit_path(relation, binding, before_of, path, before, after, [&](int transition, auto versions) {
        return binding.calls[transition].nguards > 0 && !guards_allow(binding, transition, versions(), &guard);
    });
    return guard;
}

void run_effects_of(Oid relation, Binding& binding, const Binding& before_of, const Transitions& path,
                    const Row& before, const Row& after) {
    visit_path(relation, binding, before_of, path, before, after, [&](int transition, auto versions) {
        if (binding.calls[transition].neffects > 0) run_effects(binding, transition, versions());
        return false;
    });
}

}  // namespace pawl
