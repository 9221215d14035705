// Does not throw; may ereport where memory is short. See newest_entry_cache.hpp.
#include "log/newest_entry_cache.hpp"

namespace pawl {

namespace {

constexpr int places = 4096;  // indexed by hash, a power of two; a collision replaces the older entry
constexpr int most_key_bytes = 32;
constexpr int most_entries = 4 * places;  // remembered by one transaction: of more, few would be found again

struct RememberedEntry {
    FullTransactionId writer;  // 64 bits, because a session may outlive 2^32 transactions
    uint64 generation;
    Oid log;
    int sort_key;
    TimestampTz at;
    char key[most_key_bytes];
};

RememberedEntry* remembered = nullptr;
uint64 generation = 1;  // entries of earlier generations are invalid

TransactionId remembering = InvalidTransactionId;  // the transaction that remembered last
int entries = 0;                                   // remembered by it
bool writers[places];  // transactions that may have remembered entries, by the low bits of their IDs

bool& remembers(TransactionId writer) {
    return writers[writer & (places - 1)];
}

// Copies the key's bytes. False if they are too long, or if equal keys can have different bytes.
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

// Whether xmin is this transaction, and not an earlier one with the same 32 bits.
bool is_by(TransactionId xmin, FullTransactionId writer) {
    constexpr uint64 half_round = uint64{1} << 31;
    return xmin == XidFromFullTransactionId(writer) &&
           U64FromFullTransactionId(GetCurrentFullTransactionId()) - U64FromFullTransactionId(writer) < half_round;
}

// Whether the current (sub)transaction may remember one more entry; counts it.
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
    // A state change that may follow a pending one is compared with the entry itself.
    if (remembered == nullptr || change.may_wait || !TransactionIdIsNormal(change.left) || !remembers(change.left))
        return false;
    const RememberedEntry& place = remembered[hash & (places - 1)];
    if (place.generation != generation || place.log != change.binding->log.table || !is_by(change.left, place.writer))
        return false;
    char key[most_key_bytes];
    if (!image_of_key(change, key) || memcmp(key, place.key, most_key_bytes) != 0) return false;
    *newest = {};
    newest->found = true;
    newest->sort_key = place.sort_key;
    newest->at = place.at;
    return true;
}

void remember_newest(const StateChange& change, uint32 hash, const LogEntry& entry) {
    if (!may_remember()) return;
    if (remembered == nullptr)
        remembered =
            static_cast<RememberedEntry*>(MemoryContextAllocZero(TopMemoryContext, sizeof(RememberedEntry) * places));
    RememberedEntry& place = remembered[hash & (places - 1)];
    place.generation = 0;
    if (!image_of_key(change, place.key)) return;
    place.writer = GetCurrentFullTransactionId();
    place.generation = generation;
    place.log = change.binding->log.table;
    place.sort_key = entry.sort_key;
    place.at = entry.at;
}

void forget_newest_entries() noexcept {
    ++generation;
}

}  // namespace pawl
