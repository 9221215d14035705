// May ereport where memory is short; owns nothing. See transaction_counts.hpp.
#include "observe/transaction_counts.hpp"

extern "C" {
#include "access/twophase.h"
}

namespace pawl {

namespace {

// Counts of inner subtransactions come first; within a subtransaction, the one that was used last.
struct PendingCount {
    PendingCount* next;
    SubTransactionId subtransaction;
    const BoundMachine* machine;
    const text* from;
    const text* to;
    const text* event;
    std::uint8_t roles;
    Count count;
};

PendingCount* pending = nullptr;  // in the transaction's memory
char gid_of_this[GIDSIZE];

bool is_of(const PendingCount& entry, const BoundMachine* machine, const text* from, const text* to,
           const text* event) {
    return entry.machine == machine && entry.from == from && entry.to == to && entry.event == event;
}

// The count, moved to the head of the list; null: there is none yet.
PendingCount* find(SubTransactionId current, const BoundMachine* machine, const text* from, const text* to,
                   const text* event, int roles) {
    for (PendingCount** link = &pending; *link != nullptr && (*link)->subtransaction == current;
         link = &(*link)->next) {
        PendingCount* entry = *link;
        if (!is_of(*entry, machine, from, to, event) || (roles >= 0 && entry->roles != roles)) continue;
        *link = entry->next;
        entry->next = pending;
        pending = entry;
        return entry;
    }
    return nullptr;
}

std::string_view name_of(const text* name) {
    return name == nullptr ? std::string_view() : view(name);
}

CounterKey key_of(const PendingCount& entry) {
    return {Counted::move,       entry.roles,       entry.machine->version, entry.machine->name,
            name_of(entry.from), name_of(entry.to), name_of(entry.event)};
}

// Rows that existed before the binding may leave a state that the machine lacks; it is counted as "?".
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
    PendingCount* entry = find(current, binding.machine, outcome.from, outcome.to, outcome.event, outcome.roles);
    if (entry == nullptr) {
        const text* from = counted_state(*binding.machine, outcome.from);
        if (from != outcome.from)
            entry = find(current, binding.machine, from, outcome.to, outcome.event, outcome.roles);
        if (entry == nullptr) {
            entry = static_cast<PendingCount*>(MemoryContextAllocZero(TopTransactionContext, sizeof(PendingCount)));
            entry->subtransaction = current;
            entry->machine = binding.machine;
            entry->from = from;
            entry->to = outcome.to;
            entry->event = outcome.event;
            entry->roles = outcome.roles;
            entry->next = pending;
            pending = entry;
        }
    }
    ++entry->count.n;
}

void count_time(const StateChange& change, std::int64_t microseconds) {
    PendingCount* entry =
        find(GetCurrentSubTransactionId(), change.binding->machine, change.from, change.to, change.event, change.roles);
    if (entry != nullptr) entry->count.add_time(Max(microseconds, 0));
}

void commit_counts() noexcept {
    for (const PendingCount* entry = pending; entry != nullptr; entry = entry->next)
        add_count(key_of(*entry), entry->count);
}

void prepare_counts() noexcept {
    for (const PendingCount* entry = pending; entry != nullptr; entry = entry->next)
        add_prepared(gid_of_this, key_of(*entry), entry->count);
}

void note_gid(const char* gid) noexcept {
    strlcpy(gid_of_this, gid, GIDSIZE);
}

void forget_counts() noexcept {
    pending = nullptr;
}

void drop_counts_of(SubTransactionId subtransaction) noexcept {
    while (pending != nullptr && pending->subtransaction >= subtransaction) {
        PendingCount* dropped = pending;
        pending = dropped->next;
        pfree(dropped);
    }
}

void reassign_counts(SubTransactionId from, SubTransactionId to) noexcept {
    PendingCount* mine = nullptr;
    while (pending != nullptr && pending->subtransaction == from) {
        PendingCount* taken = pending;
        pending = taken->next;
        taken->next = mine;
        mine = taken;
    }
    while (mine != nullptr) {
        PendingCount* entry = mine;
        mine = entry->next;
        if (PendingCount* same = find(to, entry->machine, entry->from, entry->to, entry->event, entry->roles)) {
            same->count.add(entry->count);
            pfree(entry);
        } else {
            entry->subtransaction = to;
            entry->next = pending;
            pending = entry;
        }
    }
}

}  // namespace pawl
