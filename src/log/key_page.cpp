// May ereport; owns nothing. See key_page.hpp. Reads nbtree's pages as nbtree does, and writes nothing.
#include "log/key_page.hpp"

extern "C" {
#include "access/nbtree.h"
#include "storage/bufmgr.h"
}

namespace pawl {

namespace {

constexpr int most_misses = 16;

enum class Order { less, equal, greater, unknown };

// Of an index entry's key columns to a subject's key. Unknown: the high key of a page may have lost its last columns.
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

}  // namespace

void prepare_key_page(KeyPage* last, Relation index, int nkeys) {
    last->index = index;
    last->nkeys = nkeys;
    for (int i = 0; i < nkeys; ++i) last->order[i] = index_getprocinfo(index, i + 1, BTORDER_PROC);
    last->block = InvalidBlockNumber;
    last->buffer = InvalidBuffer;
    last->misses = 0;
}

OnPage search_key_page(KeyPage* last, const Datum* key, ItemPointer place) {
    if (last->block == InvalidBlockNumber) return OnPage::elsewhere;
    if (!BufferIsValid(last->buffer)) last->buffer = ReadBuffer(last->index, last->block);
    LockBuffer(last->buffer, BUFFER_LOCK_SHARE);
    const OnPage found = search_page(last, BufferGetPage(last->buffer), key, place);
    LockBuffer(last->buffer, BUFFER_LOCK_UNLOCK);
    last->misses = found == OnPage::elsewhere ? last->misses + 1 : 0;
    return found;
}

void turn_to_page(KeyPage* last, IndexScanDesc scan, bool hit) {
    leave_page(last);
    if (last->misses >= most_misses) return;
    // Where nothing was found the key may be greater than all: nbtree knows the page where it has added last.
    last->block = hit ? static_cast<BTScanOpaque>(scan->opaque)->currPos.currPage : RelationGetTargetBlock(last->index);
    last->offset = InvalidOffsetNumber;
}

void leave_page(KeyPage* last) {
    if (BufferIsValid(last->buffer)) ReleaseBuffer(last->buffer);
    last->buffer = InvalidBuffer;
    last->block = InvalidBlockNumber;
}

}  // namespace pawl
