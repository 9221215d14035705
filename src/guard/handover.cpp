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
    PathStep* steps;  // null: there are none
    Fingerprint fingerprint;
};

HTAB* pending = nullptr;    // PendingEffects, in the transaction's memory
HTAB* decisions = nullptr;  // PendingDecision, the same

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
    effects->transitions = transitions_of(path);
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

void leave_decision(const HandoverKey& key, const Decided& decided) {
    if (decisions == nullptr) decisions = make_table("pawl decisions", sizeof(PendingDecision));
    const Path& path = decided.path;
    PathStep* steps = nullptr;
    if (path.n > 0) {
        MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
        steps = static_cast<PathStep*>(palloc(sizeof(PathStep) * path.n));
        for (int i = 0; i < path.n; ++i) steps[i] = copied(path.steps[i]);
        MemoryContextSwitchTo(caller);
    }
    bool found;
    auto* decision = static_cast<PendingDecision*>(hash_search(decisions, &key, HASH_ENTER, &found));
    if (found && decision->steps != nullptr) pfree(decision->steps);
    decision->n = path.n;
    decision->steps = steps;
    decision->fingerprint = decided.fingerprint;
}

bool take_decision(const HandoverKey& key, Decided* decided) {
    if (decisions == nullptr) return false;
    auto* decision = static_cast<PendingDecision*>(hash_search(decisions, &key, HASH_FIND, nullptr));
    if (decision == nullptr) return false;
    decided->path.n = decision->n;
    decided->fingerprint = decision->fingerprint;
    if (decision->n > 0) {
        memcpy(decided->path.steps, decision->steps, sizeof(PathStep) * decision->n);
        pfree(decision->steps);
    }
    hash_search(decisions, &key, HASH_REMOVE, nullptr);
    return true;
}

void forget_handovers() noexcept {
    pending = nullptr;
    decisions = nullptr;
}

}  // namespace pawl
