// May ereport; owns nothing. See decide_write.hpp.
#include "guard/decide_write.hpp"

#include "guard/entry.hpp"
#include "guard/metadata.hpp"

namespace pawl {

namespace {

[[noreturn]] void reject_rewritten(const Write& write, const char* message) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("%s", message),
                    errdetail("%s: a BEFORE trigger of the table, or of the partition that the row moves to, ran after "
                              "the validating trigger.",
                              describe_row(write.before_of, write.before.slot)),
                    errhint("Change these columns in a BEFORE UPDATE trigger that sorts before \"~pawl_validate\".")));
}

void decide_entry(const Write& write, const States& states, ManagedUpdate* managed_update, Path* path) {
    const Binding& row_of = write.before_of;
    if (states.events != nullptr) reject_transition(row_of, write.before.slot, nullptr, states.to_text, nullptr);
    const Question question = {write.binding, states.from, states.to, write.intent, nullptr};
    const RowVersions versions = versions_of(write.before, row_of, write.after, write.binding);
    path->n = 1;
    path->steps[0] = {decide_or_reject(question, versions, row_of, write.before, states), nullptr, nullptr, 0, -1};
    if (managed_update != nullptr)
        set_for_entry(write.binding, states.to, statement_of(*managed_update, write.before, write.after),
                      &managed_update->changes);
}

// Decides the events that were listed.
void walk_or_reject(const Write& write, const States& states, ManagedUpdate* managed_update, Path* path) {
    const Walk asked = {write.member.relid, write.binding, write.before_of, write.before, write.after,
                        states.from,        states.to,     *states.events,  write.intent, managed_update};
    if (const Rejection* rejection = walk(asked, path)) raise(write.binding, *rejection);
}

void decide_and_set(const Write& write, const States& states, ManagedUpdate* managed_update, Path* path) {
    Binding& binding = write.binding;
    const Statement statement = statement_of(*managed_update, write.before, write.after);
    const Actor actor = acting(write.intent, actor_in(*binding.managed, statement));
    const Ownership ownership = ownership_of(binding, write.before.slot, actor);
    const Question question = {binding, states.from, states.to, write.intent, &ownership};
    const RowVersions versions = versions_of(write.before, binding, write.after, binding);
    const int transition = decide_or_reject(question, versions, binding, write.before, states);
    set_for_transition(binding, ownership, transition, statement, write.intent, &managed_update->changes);
    path->n = 1;
    path->steps[0] = {transition, actor.name,
                      takes_away(binding, ownership, transition) ? lost_ownership(ownership) : nullptr, ownership.moved,
                      -1};
}

}  // namespace

Statement statement_of(const ManagedUpdate& managed_update, const Row& before, const Row& after) {
    return {managed_update.updated, before.slot, after.slot};
}

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

void decide_write(const Write& write, const States& states, ManagedUpdate* managed_update, Path* path) {
    if (states.enters) return decide_entry(write, states, managed_update, path);
    if (states.events != nullptr) return walk_or_reject(write, states, managed_update, path);
    if (managed_update != nullptr) return decide_and_set(write, states, managed_update, path);
    const Question question = {write.binding, states.from, states.to, write.intent, nullptr};
    const RowVersions versions = versions_of(write.before, write.before_of, write.after, write.binding);
    path->n = 1;
    path->steps[0] = {decide_or_reject(question, versions, write.before_of, write.before, states), nullptr, nullptr, 0,
                      -1};
}

bool has_guards(const Binding& binding, const Path& path) {
    for (int i = 0; i < path.n; ++i)
        if (binding.calls[path.steps[i].transition].nguards > 0) return true;
    return false;
}

void reject_rewritten_state(const Write& write) {
    reject_rewritten(write, "a trigger changed the state after the managed columns were set");
}

void require_as_set(const Write& write, const Decided& decided) {
    const Fingerprint stored = fingerprint_of(write.member, write.binding, write.after.slot, nullptr, false);
    if (stored.managed != decided.fingerprint.managed)
        reject_rewritten(write, "a trigger changed the managed columns after they were set");
}

void require_as_decided(const Write& write, const Decided& decided, const States& states) {
    const Path& path = decided.path;
    Binding& binding = write.binding;
    const int last = path.steps[path.n - 1].transition;
    if (binding.machine->machine->transitions()[last].to != states.to) reject_rewritten_state(write);
    if (!has_guards(binding, path)) return;
    const Fingerprint stored = fingerprint_of(write.member, binding, write.after.slot, nullptr, true);
    if (stored.others == decided.fingerprint.others) return;
    const char* guard =
        guard_against(write.member.relid, binding, write.before_of, transitions_of(path), write.before, write.after);
    if (guard == nullptr) return;
    raise(write.before_of,
          rejected_by_guard(write.before_of, write.before.slot, states.from_text, states.to_text, guard));
}

}  // namespace pawl
