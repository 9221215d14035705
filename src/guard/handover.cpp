// May ereport where memory is short; owns nothing. See handover.hpp.
#include "guard/handover.hpp"

#include "guard/decide.hpp"

namespace pawl {

namespace {

struct PendingEffects {
    HandoverKey key;
    int transition;
};

HTAB* pending = nullptr;  // PendingEffects, in the transaction's memory
HTAB* decided = nullptr;  // DecidedChange, the same

HTAB* make_table(const char* name, std::size_t entry) {
    HASHCTL control = {};
    control.keysize = sizeof(HandoverKey);
    control.entrysize = entry;
    control.hcxt = TopTransactionContext;
    return hash_create(name, 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
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

void leave_effects(const HandoverKey& key, int transition) {
    if (pending == nullptr) pending = make_table("pawl effects", sizeof(PendingEffects));
    static_cast<PendingEffects*>(hash_search(pending, &key, HASH_ENTER, nullptr))->transition = transition;
}

// Effects that a rolled-back statement left for this version must not run.
void drop_effects(const HandoverKey& key) {
    if (pending != nullptr) hash_search(pending, &key, HASH_REMOVE, nullptr);
}

void leave_decision(const HandoverKey& key, int transition, const text* processor, const Jsonb* added, TimestampTz at) {
    if (decided == nullptr) decided = make_table("pawl moves", sizeof(DecidedChange));
    auto* move = static_cast<DecidedChange*>(hash_search(decided, &key, HASH_ENTER, nullptr));
    MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);
    move->transition = transition;
    move->at = at;
    move->processor = processor == nullptr ? nullptr : make_text(view(processor));
    move->added =
        added == nullptr ? nullptr : static_cast<Jsonb*>(memcpy(palloc(VARSIZE(added)), added, VARSIZE(added)));
    MemoryContextSwitchTo(caller);
}

// Takes the decision for this version of the row; its transition is no_transition if there is none.
DecidedChange take_decision(const HandoverKey& key) {
    DecidedChange move = {key, no_transition, nullptr, nullptr, 0};
    if (decided == nullptr) return move;
    if (auto* found = static_cast<DecidedChange*>(hash_search(decided, &key, HASH_FIND, nullptr))) {
        move = *found;
        hash_search(decided, &key, HASH_REMOVE, nullptr);
    }
    return move;
}

bool take_effects(const HandoverKey& key, int* transition) {
    if (pending == nullptr) return false;
    auto* effects = static_cast<PendingEffects*>(hash_search(pending, &key, HASH_FIND, nullptr));
    if (effects == nullptr) return false;
    *transition = effects->transition;
    hash_search(pending, &key, HASH_REMOVE, nullptr);
    return true;
}

bool effects_are_pending() noexcept {
    return pending != nullptr && hash_get_num_entries(pending) > 0;
}

void forget_handovers() noexcept {
    pending = nullptr;
    decided = nullptr;
}

}  // namespace pawl
