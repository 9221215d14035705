// May ereport; owns nothing. See newest_entry.hpp.
#include "log/newest_entry.hpp"

#include "catalog/catalog.hpp"
#include "log/anchor.hpp"
#include "pg/uuid_v7.hpp"

namespace pawl {

namespace {

// A row that comes back after its deletion goes on from an entry that nothing but this lock keeps from being pruned:
// the row itself is not there to be locked. False: the entry is not the newest any more.
bool hold_tail(NewestEntrySearch* search) {
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

// The same, from the page that was looked at last where that will do. A newest entry whose row was rolled back is left
// to the search.
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

NewestEntry read_tail(const NewestEntrySearch* search, const StateChange& change) {
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
    if (change.may_wait) {
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
                        errdetail("pawl.enable_log made one on the subject's key and sort_key."),
                        errhint("SELECT * FROM pawl.health();")));
    search->log = log;
    search->root = layout.table;
    search->columns = columns;
    search->nkeys = nkeys;
    search->context = context;
    search->index = index_open(index, RowExclusiveLock);
    check_log_key(log, search->index, columns, layout.keys, nkeys);
    prepare_key_scan(search->index, nkeys, search->keys);
    search->scan = pg::begin_index_scan(log, search->index, SnapshotSelf, nkeys);
    search->slot = table_slot_create(log, nullptr);
    prepare_key_page(&search->page, search->index, nkeys);
}

NewestEntry find_newest(NewestEntrySearch* search, const StateChange& change) {
    bool found = find_row(search, change);
    while (found && change.from == nullptr && !hold_tail(search)) found = find_row(search, change);
    MemoryContext caller = MemoryContextSwitchTo(search->context);
    NewestEntry newest = {};
    if (found)
        newest = read_tail(search, change);
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

}  // namespace pawl
