// May ereport where memory is short; owns nothing. See predecessor.hpp.
#include "log/predecessor.hpp"

#include "catalog/row_identity.hpp"
#include "log/make_change.hpp"
#include "session/context.hpp"
#include "session/statements.hpp"

namespace pawl {

namespace {

// Not the state change itself: after an error it is gone before the subtransaction is.
struct Request {
    Request* outer;
    Oid log;
    uint32 hash;  // of the key
    CommandId command;
    SubTransactionId subtransaction;
};

Request* innermost = nullptr;  // in the transaction's memory

struct Subject {
    Oid table;    // the log; without one, the root of the binding
    uint32 hash;  // of the key; a collision only makes a state change wait
};

// What running statements have done to a row.
struct Known {
    Subject subject;
    CommandId carried;  // the first that made a version which was written again without a state change; invalid: none
    CommandId written;  // its state change is in the log; invalid: none
};

HTAB* known = nullptr;             // in the transaction's memory
constexpr int most_known = 65536;  // of rows that were written without a state change: others only make some wait

Subject subject_of(const Binding& binding, uint32 hash) {
    return {OidIsValid(binding.log.table) ? binding.log.table : binding.root, hash};
}

const Known* find_known(const StateChange& change, uint32 hash) {
    if (known == nullptr) return nullptr;
    const Subject subject = subject_of(*change.binding, hash);
    return static_cast<const Known*>(hash_search(known, &subject, HASH_FIND, nullptr));
}

Known* get_known(const Binding& binding, uint32 hash) {
    if (known == nullptr) {
        HASHCTL control = {};
        control.keysize = sizeof(Subject);
        control.entrysize = sizeof(Known);
        control.hcxt = TopTransactionContext;
        known = hash_create("pawl rows of running statements", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    }
    const Subject subject = subject_of(binding, hash);
    bool found;
    auto* got = static_cast<Known*>(hash_search(known, &subject, HASH_ENTER, &found));
    if (!found) got->carried = got->written = InvalidCommandId;
    return got;
}

bool is_new(HeapTupleHeader version) {
    return (version->t_infomask & HEAP_UPDATED) == 0;
}

bool is_requested(const Request* request, const StateChange& change, uint32 hash) {
    for (; request != nullptr; request = request->outer)
        if (request->log == change.binding->log.table && request->hash == hash && request->command < change.command)
            return true;
    return false;
}

// Whether the state change comes after a command whose statement is running, and whose own state change of the row is
// not in the log.
bool is_unknown(CommandId command, const StateChange& change, const Known* of_row) {
    return has_triggers_to_fire(command) && command < change.command &&
           (of_row == nullptr || of_row->written != command);
}

}  // namespace

bool follows(const StateChange& change, const NewestEntry& newest) {
    const text* before = newest.found ? newest.to : nullptr;
    if (change.from == nullptr || before == nullptr) return change.from == nullptr && before == nullptr;
    return view(change.from) == view(before);
}

bool follows_insertion(const StateChange& change, uint32 hash) {
    if (running_statement == nullptr) return false;
    const Known* of_row = find_known(change, hash);
    return (change.born_new && is_unknown(change.born, change, of_row)) ||
           (of_row != nullptr && is_unknown(of_row->carried, change, of_row));
}

void note_written(const StateChange& change, uint32 hash) {
    if (has_triggers_to_fire(change.made)) get_known(*change.binding, hash)->written = change.made;
}

void note_other_write(const Binding& binding, TupleTableSlot* row, HeapTuple tuple) {
    HeapTupleHeader old = tuple->t_data;
    if (running_statement == nullptr || !TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(old))) return;
    const CommandId command = HeapTupleHeaderGetCmin(old);
    uint32 hash;
    if (!(is_new(old) || rows_are_deferred()) || !has_triggers_to_fire(command) || !hash_of_row(binding, row, &hash))
        return;
    Known* of_row = get_known(binding, hash);
    // of statements that nest, the outermost one ends last
    of_row->carried = has_triggers_to_fire(of_row->carried) ? Min(of_row->carried, command) : command;
}

void note_no_change(const Binding& binding, TupleTableSlot* row, HeapTuple tuple) {
    const CommandId command = HeapTupleHeaderGetCmin(tuple->t_data);
    uint32 hash;
    if (!has_triggers_to_fire(command) || !hash_of_row(binding, row, &hash)) return;
    if (known == nullptr || hash_get_num_entries(known) < most_known) get_known(binding, hash)->written = command;
}

void begin_request(const StateChange& change) {
    auto* request = static_cast<Request*>(MemoryContextAlloc(TopTransactionContext, sizeof(Request)));
    *request = {innermost, change.binding->log.table, hash_of_key(change), change.command, change.subtransaction};
    innermost = request;
}

void end_request() noexcept {
    Request* ended = innermost;
    innermost = ended->outer;
    pfree(ended);
}

bool follows_request(const StateChange& change, uint32 hash) {
    return is_requested(innermost, change, hash);
}

void require_predecessor(const StateChange& change, const NewestEntry& newest, bool pending) {
    if (!change.may_wait) return;
    const uint32 hash = hash_of_key(change);
    const bool is_deferred = rows_are_deferred() && is_unknown(change.born, change, find_known(change, hash));
    if (!pending && !is_deferred && follows(change, newest) && !follows_insertion(change, hash) &&
        !is_requested(innermost->outer, change, hash))
        return;
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("an earlier state change of the row is not logged yet"),
                    errdetail("The row with key %s was changed by a statement that is still running.",
                              describe_key(*change.binding, change.key)),
                    errhint("Insert into the log by a statement of its own, or change the row by UPDATE or pawl.fire "
                            "instead.")));
}

void forget_written() noexcept {
    if (known != nullptr) hash_destroy(known);
    known = nullptr;
}

void forget_predecessors() noexcept {
    innermost = nullptr;
    known = nullptr;
}

void drop_requests_of(SubTransactionId subtransaction) noexcept {
    while (innermost != nullptr && innermost->subtransaction >= subtransaction) innermost = innermost->outer;
}

void reassign_requests(SubTransactionId from, SubTransactionId to) noexcept {
    for (Request* each = innermost; each != nullptr; each = each->outer)
        if (each->subtransaction == from) each->subtransaction = to;
}

}  // namespace pawl
