// May ereport where memory is short; owns nothing. See transaction_counts.hpp.
#include "observe/transaction_counts.hpp"

extern "C" {
#include "access/twophase.h"
}

namespace pawl {

namespace {

// Those of inner subtransactions come first; of one subtransaction the one that was counted last.
struct Tally {
    Tally* next;
    SubTransactionId subtransaction;
    const BoundMachine* machine;
    const text* from;
    const text* to;
    const text* event;
    std::uint8_t roles;
    Count count;
};

Tally* tallies = nullptr;  // in the transaction's memory
char gid_of_this[GIDSIZE];

bool is_of(const Tally& tally, const BoundMachine* machine, const text* from, const text* to, const text* event) {
    return tally.machine == machine && tally.from == from && tally.to == to && tally.event == event;
}

// The tally, at the head of the list; null: there is none yet.
Tally* find(SubTransactionId current, const BoundMachine* machine, const text* from, const text* to, const text* event,
            int roles) {
    for (Tally** link = &tallies; *link != nullptr && (*link)->subtransaction == current; link = &(*link)->next) {
        Tally* tally = *link;
        if (!is_of(*tally, machine, from, to, event) || (roles >= 0 && tally->roles != roles)) continue;
        *link = tally->next;
        tally->next = tallies;
        tallies = tally;
        return tally;
    }
    return nullptr;
}

std::string_view name_of(const text* name) {
    return name == nullptr ? std::string_view() : view(name);
}

CounterKey key_of(const Tally& tally) {
    return {Counted::move,       tally.roles,       tally.machine->version, tally.machine->name,
            name_of(tally.from), name_of(tally.to), name_of(tally.event)};
}

// A state that the machine does not know: rows that were there before, and go or are mapped to another.
const text* counted_state(const BoundMachine& machine, const text* state) {
    static text* unknown = nullptr;
    if (state == nullptr) return nullptr;
    for (std::size_t i = 0; i < machine.machine->states().size(); ++i)
        if (machine.state_text[i] == state) return state;
    if (unknown == nullptr) {
        MemoryContext caller = MemoryContextSwitchTo(TopMemoryContext);
        unknown = cstring_to_text("?");
        MemoryContextSwitchTo(caller);
    }
    return unknown;
}

}  // namespace

void count_move(const Binding& binding, const Outcome& outcome) {
    const SubTransactionId current = GetCurrentSubTransactionId();
    Tally* tally = find(current, binding.machine, outcome.from, outcome.to, outcome.event, outcome.roles);
    if (tally == nullptr) {
        const text* from = counted_state(*binding.machine, outcome.from);
        if (from != outcome.from)
            tally = find(current, binding.machine, from, outcome.to, outcome.event, outcome.roles);
        if (tally == nullptr) {
            tally = static_cast<Tally*>(MemoryContextAllocZero(TopTransactionContext, sizeof(Tally)));
            tally->subtransaction = current;
            tally->machine = binding.machine;
            tally->from = from;
            tally->to = outcome.to;
            tally->event = outcome.event;
            tally->roles = outcome.roles;
            tally->next = tallies;
            tallies = tally;
        }
    }
    ++tally->count.n;
}

void count_time(const StateChange& change, std::int64_t microseconds) {
    Tally* tally =
        find(GetCurrentSubTransactionId(), change.binding->machine, change.from, change.to, change.event, change.roles);
    if (tally != nullptr) tally->count.add_time(Max(microseconds, 0));
}

void commit_counts() noexcept {
    for (const Tally* tally = tallies; tally != nullptr; tally = tally->next) add_count(key_of(*tally), tally->count);
}

void prepare_counts() noexcept {
    for (const Tally* tally = tallies; tally != nullptr; tally = tally->next)
        add_prepared(gid_of_this, key_of(*tally), tally->count);
}

void note_gid(const char* gid) noexcept {
    strlcpy(gid_of_this, gid, GIDSIZE);
}

void forget_counts() noexcept {
    tallies = nullptr;
}

void drop_counts_of(SubTransactionId subtransaction) noexcept {
    while (tallies != nullptr && tallies->subtransaction >= subtransaction) {
        Tally* dropped = tallies;
        tallies = dropped->next;
        pfree(dropped);
    }
}

void reassign_counts(SubTransactionId from, SubTransactionId to) noexcept {
    Tally* mine = nullptr;
    while (tallies != nullptr && tallies->subtransaction == from) {
        Tally* taken = tallies;
        tallies = taken->next;
        taken->next = mine;
        mine = taken;
    }
    while (mine != nullptr) {
        Tally* tally = mine;
        mine = tally->next;
        if (Tally* same = find(to, tally->machine, tally->from, tally->to, tally->event, tally->roles)) {
            same->count.add(tally->count);
            pfree(tally);
        } else {
            tally->subtransaction = to;
            tally->next = tallies;
            tallies = tally;
        }
    }
}

}  // namespace pawl
