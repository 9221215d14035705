// Does not throw; may ereport where memory is short. See newest_entry_cache.hpp.
#include "log/newest_entry_cache.hpp"

namespace pawl {

namespace {

constexpr int places = 4096;  // one for each hash, a power of two: what falls on it later takes it
constexpr int most_key_bytes = 32;
constexpr int most_entries = 4 * places;  // of a transaction: of one that writes more hardly any would be met again

struct Memory {
    FullTransactionId writer;  // whole: a session may outlive four billion transactions
    uint64 generation;
    Oid log;
    int sort_key;
    TimestampTz at;
    char key[most_key_bytes];
};

Memory* memories = nullptr;
uint64 generation = 1;  // those of an earlier one are forgotten

TransactionId remembering = InvalidTransactionId;  // the transaction that wrote last
int entries = 0;                                   // of it
bool writers[places];                              // transactions that may have memories, by the end of their number

bool& remembers(TransactionId writer) {
    return writers[writer & (places - 1)];
}

// The key's bytes, if they are few and equal keys have equal ones.
bool image_of_key(const StateChange& change, char* image) {
    memset(image, 0, most_key_bytes);
    int used = 0;
    for (int i = 0; i < change.binding->nkeys; ++i) {
        const KeyColumn& column = change.binding->keys[i];
        const int length = column.by_value ? static_cast<int>(sizeof(Datum)) : column.length;
        if (!column.by_image || length <= 0 || used + length > most_key_bytes) return false;
        memcpy(image + used,
               column.by_value ? static_cast<const void*>(&change.key[i]) : DatumGetPointer(change.key[i]), length);
        used += length;
    }
    return true;
}

// Whether a row version's 32 bits name this transaction, and not one of four billion earlier.
bool is_by(TransactionId xmin, FullTransactionId writer) {
    constexpr uint64 half_round = uint64{1} << 31;
    return xmin == XidFromFullTransactionId(writer) &&
           U64FromFullTransactionId(GetCurrentFullTransactionId()) - U64FromFullTransactionId(writer) < half_round;
}

// Whether the current (sub)transaction has room for one more.
bool may_remember() {
    const TransactionId writer = GetCurrentTransactionId();
    if (writer != remembering) {
        remembering = writer;
        entries = 0;
    }
    return remembers(writer) = ++entries <= most_entries;
}

}  // namespace

bool remembers_newest(const LogLayout& layout) noexcept {
    return !layout.stored && !layout.hash_chain;
}

bool recall_newest(const StateChange& change, uint32 hash, NewestEntry* newest) {
    // What may follow a state change on its way is compared with the entry itself.
    if (memories == nullptr || change.may_wait || !TransactionIdIsNormal(change.left) || !remembers(change.left))
        return false;
    const Memory& memory = memories[hash & (places - 1)];
    if (memory.generation != generation || memory.log != change.binding->log.table ||
        !is_by(change.left, memory.writer))
        return false;
    char key[most_key_bytes];
    if (!image_of_key(change, key) || memcmp(key, memory.key, most_key_bytes) != 0) return false;
    *newest = {};
    newest->found = true;
    newest->sort_key = memory.sort_key;
    newest->at = memory.at;
    return true;
}

void remember_newest(const StateChange& change, uint32 hash, const LogEntry& entry) {
    if (!may_remember()) return;
    if (memories == nullptr)
        memories = static_cast<Memory*>(MemoryContextAllocZero(TopMemoryContext, sizeof(Memory) * places));
    Memory& memory = memories[hash & (places - 1)];
    memory.generation = 0;
    if (!image_of_key(change, memory.key)) return;
    memory.writer = GetCurrentFullTransactionId();
    memory.generation = generation;
    memory.log = change.binding->log.table;
    memory.sort_key = entry.sort_key;
    memory.at = entry.at;
}

void forget_newest_entries() noexcept {
    ++generation;
}

}  // namespace pawl
