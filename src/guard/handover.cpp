// May ereport where memory is short; owns nothing. See handover.hpp.
#include "guard/handover.hpp"

namespace pawl {

namespace {

struct PendingEffects {
    HandoverKey key;
    Transitions transitions;
};

struct PendingDecision {
    HandoverKey key;
    int n;
    PathStep* steps;
};

HTAB* pending = nullptr;  // PendingEffects, in the transaction's memory
HTAB* decided = nullptr;  // PendingDecision, the same

HTAB* make_table(const char* name, std::size_t entry) {
    HASHCTL control = {};
    control.keysize = sizeof(HandoverKey);
    control.entrysize = entry;
    control.hcxt = TopTransactionContext;
    return hash_create(name, 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

PathStep copied(const PathStep& step) {
    PathStep copy = step;
    if (step.processor != nullptr) copy.processor = make_text(view(step.processor));
    if (step.added != nullptr)
        copy.added = static_cast<Jsonb*>(memcpy(palloc(VARSIZE(step.added)), step.added, VARSIZE(step.added)));
    return copy;
}

}  // namespace

HandoverKey handover_key(const Member* member, int binding, HeapTuple version) {
    HandoverKey key;
    memset(&key, 0, sizeof(key));
    key.relation = member->relid;
    key.version = version->t_self;
    key.binding = static_cast<uint16>(binding);
    return key;
}

void leave_effects(const HandoverKey& key, const Path& path) {
    if (pending == nullptr) pending = make_table("pawl effects", sizeof(PendingEffects));
    auto* effects = static_cast<PendingEffects*>(hash_search(pending, &key, HASH_ENTER, nullptr));
    effects->transitions.n = path.n;
    for (int i = 0; i < path.n; ++i) effects->transitions.transitions[i] = path.steps[i].transition;
}

// Effects that a rolled-back statement left for this version must not run.
void drop_effects(const HandoverKey& key) {
    if (pending != nullptr) hash_search(pending, &key, HASH_REMOVE, nullptr);
}

bool take_effects(const HandoverKey& key, Transitions* transitions) {
    if (pending == nullptr) return false;
    auto* effects = static_cast<PendingEffects*>(hash_search(pending, &key, HASH_FIND, nullptr));
    if (effects == nullptr) return false;
    *transitions = effects->transitions;
    hash_search(pending, &key, HASH_REMOVE, nullptr);
    return true;
}

bool effects_are_pending() noexcept {
    return pending != nullptr && hash_get_num_entries(pending) > 0;
}

void leave_decision(const HandoverKey& key, const Path& path) {
    if (decided == nullptr) decided = make_table("pawl decisions", sizeof(PendingDecision));
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    auto* steps = static_cast<PathStep*>(palloc(sizeof(PathStep) * path.n));
    for (int i = 0; i < path.n; ++i) steps[i] = copied(path.steps[i]);
    MemoryContextSwitchTo(caller);
    auto* decision = static_cast<PendingDecision*>(hash_search(decided, &key, HASH_ENTER, nullptr));
    decision->n = path.n;
    decision->steps = steps;
}

void take_decision(const HandoverKey& key, Path* path) {
    path->n = 0;
    if (decided == nullptr) return;
    auto* decision = static_cast<PendingDecision*>(hash_search(decided, &key, HASH_FIND, nullptr));
    if (decision == nullptr) return;
    path->n = decision->n;
    memcpy(path->steps, decision->steps, sizeof(PathStep) * decision->n);
    hash_search(decided, &key, HASH_REMOVE, nullptr);
}

void forget_handovers() noexcept {
    pending = nullptr;
    decided = nullptr;
}

}  // namespace pawl
