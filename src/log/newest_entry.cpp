// May ereport; owns nothing. See newest_entry.hpp. Reads nbtree's pages as nbtree does, and does not write them.
#include "log/newest_entry.hpp"

#include "pg/index_look.hpp"
#include "pg/uuid_v7.hpp"

extern "C" {
#include "access/nbtree.h"
#include "storage/bufmgr.h"
}

namespace pawl {

namespace {

enum class OnPage { elsewhere, nothing, entry };

constexpr int most_misses = 16;

enum class Order { less, equal, greater, unknown };

// Compares an index entry with a subject's key. unknown: the last columns of a page's high key may be truncated.
Order compare(const KeyPage* last, Page page, OffsetNumber offset, const Datum* key) {
    Relation index = last->index;
    auto* entry = reinterpret_cast<IndexTuple>(PageGetItem(page, PageGetItemId(page, offset)));
    const int columns = BTreeTupleGetNAtts(entry, index);
    for (int i = 0; i < last->nkeys; ++i) {
        if (i >= columns) return Order::unknown;
        bool null;
        const Datum value = index_getattr(entry, i + 1, RelationGetDescr(index), &null);
        if (null) return Order::unknown;
        int32 order = DatumGetInt32(FunctionCall2Coll(last->order[i], index->rd_indcollation[i], value, key[i]));
        if ((index->rd_indoption[i] & INDOPTION_DESC) != 0) order = order < 0 ? 1 : -order;
        if (order != 0) return order < 0 ? Order::less : Order::greater;
    }
    return Order::equal;
}

bool is_up_to(const KeyPage* last, Page page, OffsetNumber offset, const Datum* key) {
    const Order order = compare(last, page, offset, key);
    return order == Order::less || order == Order::equal;
}

// The last entry that is not greater than the key, of which `low` is one: from there on in growing steps, then by
// halves.
OffsetNumber last_up_to(const KeyPage* last, Page page, OffsetNumber low, OffsetNumber end, const Datum* key) {
    int at = low;
    int step = 1;
    while (at + step <= end && is_up_to(last, page, at + step, key)) {
        at += step;
        step *= 2;
    }
    int beyond = Min(at + step, end + 1);
    while (beyond - at > 1) {
        const int middle = at + (beyond - at) / 2;
        if (is_up_to(last, page, middle, key))
            at = middle;
        else
            beyond = middle;
    }
    return at;
}

// On a page that is locked. The newest entry of a key is here if something here is not greater than the key, and all
// beyond is greater.
OnPage search_page(KeyPage* last, Page page, const Datum* key, ItemPointer place) {
    const BTPageOpaque opaque = BTPageGetOpaque(page);
    if (PageIsNew(page) || !P_ISLEAF(opaque) || P_IGNORE(opaque)) return OnPage::elsewhere;
    const OffsetNumber first = P_FIRSTDATAKEY(opaque);
    const OffsetNumber end = PageGetMaxOffsetNumber(page);
    if (end < first || (!P_RIGHTMOST(opaque) && compare(last, page, P_HIKEY, key) != Order::greater))
        return OnPage::elsewhere;
    OffsetNumber low = last->offset;
    if (low < first || low > end || !is_up_to(last, page, low, key)) low = first;
    if (low == first && !is_up_to(last, page, first, key)) return OnPage::elsewhere;
    last->offset = last_up_to(last, page, low, end, key);
    if (compare(last, page, last->offset, key) != Order::equal) return OnPage::nothing;
    const ItemId item = PageGetItemId(page, last->offset);
    auto* entry = reinterpret_cast<IndexTuple>(PageGetItem(page, item));
    if (ItemIdIsDead(item) || BTreeTupleIsPosting(entry)) return OnPage::elsewhere;
    *place = entry->t_tid;
    return OnPage::entry;
}

void prepare_key_page(KeyPage* last, Relation index, int nkeys) {
    last->index = index;
    last->nkeys = nkeys;
    for (int i = 0; i < nkeys; ++i) last->order[i] = index_getprocinfo(index, i + 1, BTORDER_PROC);
    last->block = InvalidBlockNumber;
    last->buffer = InvalidBuffer;
    last->misses = 0;
}

// Looks for the newest index entry of a subject on the page. entry: *place is that of its row, which may be dead.
// nothing: there is none. elsewhere: the page does not tell.
OnPage search_key_page(KeyPage* last, const Datum* key, ItemPointer place) {
    if (last->block == InvalidBlockNumber) return OnPage::elsewhere;
    if (!BufferIsValid(last->buffer)) last->buffer = ReadBuffer(last->index, last->block);
    LockBuffer(last->buffer, BUFFER_LOCK_SHARE);
    const OnPage found = search_page(last, BufferGetPage(last->buffer), key, place);
    LockBuffer(last->buffer, BUFFER_LOCK_UNLOCK);
    last->misses = found == OnPage::elsewhere ? last->misses + 1 : 0;
    return found;
}

void leave_page(KeyPage* last) {
    if (BufferIsValid(last->buffer)) ReleaseBuffer(last->buffer);
    last->buffer = InvalidBuffer;
    last->block = InvalidBlockNumber;
}

// Turns to the page where an ordinary search has ended. `hit`: it found an entry.
void turn_to_page(KeyPage* last, IndexScanDesc scan, bool hit) {
    leave_page(last);
    if (last->misses >= most_misses) return;
    // If nothing was found the key may be the greatest, and nbtree remembers the page of its last insertion.
    last->block = hit ? static_cast<BTScanOpaque>(scan->opaque)->currPos.currPage : RelationGetTargetBlock(last->index);
    last->offset = InvalidOffsetNumber;
}

// Locks the newest entry of a deleted row that is inserted again. There is no row to lock, so only this keeps the entry
// from being pruned. False: the entry is not the newest any more.
bool lock_newest(NewestEntrySearch* search) {
    TupleTableSlot* slot = search->slot;
    bool null;
    if (TransactionIdIsCurrentTransactionId(
            DatumGetTransactionId(slot_getsysattr(slot, MinTransactionIdAttributeNumber, &null))))
        return true;
    ItemPointerData place = slot->tts_tid;
    TM_FailureData failure;
    const TM_Result result = table_tuple_lock(search->log, &place, SnapshotSelf, slot, GetCurrentCommandId(false),
                                              LockTupleKeyShare, LockWaitBlock, 0, &failure);
    return result != TM_Deleted && result != TM_Updated;
}

// Reads the newest row of a subject into the slot, by a search from the root of the index.
bool search_row(NewestEntrySearch* search, const StateChange& change) {
    for (int i = 0; i < search->nkeys; ++i) search->keys[i].sk_argument = change.key[i];
    index_rescan(search->scan, search->keys, search->nkeys, nullptr, 0);
    const bool found = index_getnext_slot(search->scan, BackwardScanDirection, search->slot);
    turn_to_page(&search->page, search->scan, found);
    return found;
}

// Finds the row by the last page, if that tells, else by a search; also if the entry on the page was rolled back.
bool find_row(NewestEntrySearch* search, const StateChange& change) {
    ItemPointerData place;
    switch (search_key_page(&search->page, change.key, &place)) {
        case OnPage::nothing:
            return false;
        case OnPage::elsewhere:
            return search_row(search, change);
        case OnPage::entry:
            break;
    }
    bool again = false;
    return table_index_fetch_tuple(search->scan->xs_heapfetch, &place, SnapshotSelf, search->slot, &again, nullptr) ||
           search_row(search, change);
}

NewestEntry read_newest(const NewestEntrySearch* search, const StateChange& change) {
    NewestEntry newest = {};
    TupleTableSlot* slot = search->slot;
    const LogColumns& columns = search->columns;
    bool null;
    newest.found = true;
    newest.sort_key = DatumGetInt32(slot_getattr(slot, columns.sort_key, &null));
    const Datum id = slot_getattr(slot, columns.id, &null);
    if (null)
        report_damage(psprintf("log table \"%s\"", RelationGetRelationName(search->log)),
                      "It has an entry without id.");
    newest.at = time_of_uuid_v7(DatumGetUUIDP(id));
    if (change.may_wait || change.begins) {
        Datum to = slot_getattr(slot, columns.to_state, &null);
        if (!null) newest.to = DatumGetTextPCopy(to);
    }
    if (columns.hash != 0) {
        Datum hash = slot_getattr(slot, columns.hash, &null);
        if (!null) newest.hash = DatumGetByteaPCopy(hash);
    }
    if (columns.most_recent != 0) newest.tuple = ExecCopySlotHeapTuple(slot);
    return newest;
}

}  // namespace

void begin_search(NewestEntrySearch* search, Relation log, const LogLayout& layout, const LogColumns& columns,
                  int nkeys, MemoryContext context) {
    Oid index = pg::primary_key_index(log);
    if (!OidIsValid(index))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("log table \"%s\" has no primary key", RelationGetRelationName(log)),
                        errdetail("pawl.enable_log created one on the row's key and sort_key."),
                        errhint("SELECT * FROM pawl.health();")));
    search->log = log;
    search->root = layout.table;
    search->columns = columns;
    search->nkeys = nkeys;
    search->context = context;
    search->index = index_open(index, RowExclusiveLock);
    check_log_key(log, search->index, columns, layout.keys, nkeys);
    pg::prepare_key_scan(search->index, nkeys, search->keys);
    search->scan = pg::begin_index_scan(log, search->index, SnapshotSelf, nkeys);
    search->slot = table_slot_create(log, nullptr);
    prepare_key_page(&search->page, search->index, nkeys);
}

NewestEntry find_newest(NewestEntrySearch* search, const StateChange& change) {
    bool found = find_row(search, change);
    while (found && change.from == nullptr && !lock_newest(search)) found = find_row(search, change);
    MemoryContext caller = MemoryContextSwitchTo(search->context);
    NewestEntry newest = {};
    if (found)
        newest = read_newest(search, change);
    else if (change.from != nullptr)
        newest = find_anchor(search->root, change);
    MemoryContextSwitchTo(caller);
    return newest;
}

void end_search(NewestEntrySearch* search) {
    leave_page(&search->page);
    index_endscan(search->scan);
    ExecDropSingleTupleTableSlot(search->slot);
    index_close(search->index, NoLock);
}

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
