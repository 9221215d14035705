// May ereport; owns nothing. See write_changes.hpp.
#include <algorithm>

#include "log/write_changes.hpp"

#include "catalog/row_identity.hpp"
#include "log/newest_entry.hpp"
#include "log/partitions.hpp"
#include "log/predecessor.hpp"
#include "session/rights.hpp"

extern "C" {
#include "replication/logicalworker.h"
}

namespace pawl {

bool cannot_be_written(const StateChange& change) {
    return change.subtransaction != GetCurrentSubTransactionId() || (change.may_wait && rows_are_deferred());
}

namespace {

constexpr int keys_remembered = 4096;  // slots of the set of subjects in a batch; a power of two

// The subjects of the current batch, by hash. A collision only makes the batch shorter.
struct Subjects {
    uint32 hashes[keys_remembered];
    bool used[keys_remembered];

    void clear() { memset(used, 0, sizeof(used)); }

    // Returns false if the subject is, or may be, in the set already.
    bool add(uint32 hash) {
        uint32 slot = hash & (keys_remembered - 1);
        while (used[slot]) {
            if (hashes[slot] == hash) return false;
            slot = (slot + 1) & (keys_remembered - 1);
        }
        used[slot] = true;
        hashes[slot] = hash;
        return true;
    }
};

// The subjects of state changes that wait, by hash; of two with one hash the later one waits too. In the memory of the
// caller.
struct Waiting {
    uint32* slots;  // hashes, with the lowest bit set because 0 is an empty slot
    uint32 size;    // a power of two; 0: none
    uint32 n;

    uint32* find(uint32 hash) const {
        uint32 slot = (hash >> 1) & (size - 1);
        while (slots[slot] != 0 && slots[slot] != (hash | 1)) slot = (slot + 1) & (size - 1);
        return &slots[slot];
    }

    bool has(uint32 hash) const { return size > 0 && *find(hash) != 0; }

    void grow() {
        const Waiting old = *this;
        size = Max(old.size * 4, 64);
        slots = static_cast<uint32*>(palloc0(sizeof(uint32) * size));
        for (uint32 i = 0; i < old.size; ++i)
            if (old.slots[i] != 0) *find(old.slots[i]) = old.slots[i];
    }

    void add(uint32 hash) {
        if (n >= size / 2) grow();
        uint32* slot = find(hash);
        if (*slot == 0) ++n;
        *slot = hash | 1;
    }
};

// Whether the row was there before its log, which has no entry of it yet: the binding is not validated.
bool has_no_history(const StateChange& change, const NewestEntry& newest) {
    return !change.binding->validated && change.from != nullptr && !newest.found;
}

// Whether a running statement, or a request, has still to write the predecessor, or that waits itself.
bool follows_unwritten(const StateChange& change, uint32 hash, const Waiting& waiting) {
    return change.may_wait && !change.begins &&
           (waiting.has(hash) || follows_insertion(change, hash) || follows_request(change, hash));
}

// Whether the predecessor is still pending: this transaction has written the row before, and the newest entry is not
// the state that the row was in. `complete`: between statements none is, so that a row without entries has no history.
bool comes_too_early(const StateChange& change, const NewestEntry& newest, bool complete) {
    if (!change.may_wait || change.begins) return false;
    return !follows(change, newest) && !(complete && has_no_history(change, newest));
}

// Sorts state changes by the commands that made them. They are in order unless triggers nest.
StateChange* in_order(StateChange* changes) {
    int n = 0;
    bool ordered = true;
    for (StateChange* change = changes; change != nullptr; change = change->next, ++n)
        if (change->next != nullptr && change->next->command < change->command) ordered = false;
    if (ordered) return changes;
    auto** sorted = static_cast<StateChange**>(palloc(sizeof(StateChange*) * n));
    for (int i = 0; i < n; ++i, changes = changes->next) sorted[i] = changes;
    std::stable_sort(sorted, sorted + n,
                     [](const StateChange* a, const StateChange* b) { return a->command < b->command; });
    for (int i = 0; i < n; ++i) sorted[i]->next = i + 1 < n ? sorted[i + 1] : nullptr;
    return sorted[0];
}

// Writing the state changes of one log.
struct LogRun {
    LogTree* tree;
    OutboxWriter** outbox;
    Subjects* subjects;  // null for a single state change
    int in_batch;
    bool remembers;  // whether the log of the current state change uses the cache of newest entries
    bool all;
    int written;
    bool complete;  // see comes_too_early
    bool notes;     // what is written: see predecessor.hpp
};

NewestEntry find_newest(LogRun& run, LogWriter* writer, const StateChange& change, uint32 hash) {
    run.remembers = remembers_newest(change.binding->log) && keeps_all_rows(writer);
    if (run.subjects != nullptr && (!run.subjects->add(hash) || ++run.in_batch > keys_remembered / 2)) {
        flush_tree(run.tree);
        run.subjects->clear();
        run.subjects->add(hash);
        run.in_batch = 1;
    }
    NewestEntry newest;
    return run.remembers && recall_newest(change, hash, &newest) ? newest : find_newest(writer, change);
}

uint64 begun = 0;  // histories, by this session

// The entry with which the log of a row begins that was there before.
StateChange* beginning_of(const StateChange& change) {
    const Size size = offsetof(StateChange, key) + sizeof(Datum) * change.binding->nkeys;
    auto* first = static_cast<StateChange*>(memcpy(palloc(size), &change, size));
    first->then = const_cast<StateChange*>(&change);
    first->from = nullptr;
    first->to = change.from;
    first->event = attach_event();
    first->processor = first->correlation_id = nullptr;
    first->metadata = nullptr;
    first->placement = nullptr;
    return first;
}

NewestEntry entry_before_then(LogWriter* writer, const StateChange& change) {
    if (!keeps_all_rows(writer)) flush_log(writer);
    return keeps_all_rows(writer) ? newest_after(writer) : find_newest(writer, *change.then);
}

// Begins the history of a row that was there before the log, in the state that the state change leaves. A row in an
// unknown state has none: such a state change is a deletion, of which nothing is written. Returns the newest entry.
NewestEntry begin_history(LogWriter* writer, const StateChange& change, const NewestEntry& newest, bool* skip) {
    *skip = change.binding->machine->machine->find(view(change.from)) == core::no_state;
    if (*skip) return newest;
    const StateChange* first = beginning_of(change);
    ++begun;
    add_to_log(writer, *first, newest);
    return entry_before_then(writer, *first);
}

// Writes a state change after its newest entry, and those that the same write made of the row.
void write_change(LogRun& run, LogWriter* writer, const StateChange& change, uint32 hash, const NewestEntry& last) {
    if (change.begins) {  // not if it has begun meanwhile
        if (last.found && last.to != nullptr) return;
        ++begun;
        return add_to_log(writer, change, last);
    }
    bool skip = false;
    const NewestEntry newest = has_no_history(change, last) ? begin_history(writer, change, last, &skip) : last;
    if (skip) return;
    add_to_log(writer, change, newest);
    if (change.binding->events) append_event(run.outbox, change, &last_entry(writer));
    if (change.then != nullptr) {
        write_change(run, writer, *change.then, hash, entry_before_then(writer, change));
    } else if (run.remembers) {
        remember_newest(change, hash, last_entry(writer));
    }
}

// Writes the state changes that need not wait (`force`: all) and returns the others, in order.
StateChange* write_changes(LogRun& run, StateChange* changes, bool force) {
    StateChange* waiting = nullptr;
    StateChange** waiting_end = &waiting;
    Waiting subjects = {nullptr, 0, 0};
    run.written = 0;
    for (StateChange *change = changes, *next; change != nullptr; change = next) {
        next = change->next;
        change->next = nullptr;
        bool wait = !run.all && cannot_be_written(*change);
        const uint32 hash = hash_of_key(*change);
        // without a look into the log: many may wait for one statement
        wait = wait || (!force && follows_unwritten(*change, hash, subjects));
        if (!wait) {
            LogWriter* writer = writer_for(run.tree, *change);
            const NewestEntry newest = find_newest(run, writer, *change, hash);
            wait = !force && comes_too_early(*change, newest, run.complete);
            if (!wait) {
                write_change(run, writer, *change, hash, newest);
                if (run.notes) note_written(*change, hash);
                ++run.written;
            }
        }
        if (wait) {
            *waiting_end = change;
            waiting_end = &change->next;
            subjects.add(hash);
        }
    }
    return waiting;
}

[[noreturn]] void reject_second_row(const Binding& binding, const Datum* key, const text* state) {
    const char* table =
        quote_qualified_identifier(get_namespace_name(get_rel_namespace(binding.root)), get_rel_name(binding.root));
    ereport(
        ERROR,
        (errcode(ERRCODE_UNIQUE_VIOLATION),
         errmsg("%s has a row with key %s already", table, describe_key(binding, key)),
         errdetail("Its log ends in state %s. One log cannot hold entries of two rows.", quoted_state(state)),
         errhint("SELECT * FROM pawl.verify(%s); reports whether that row still exists.", quote_literal_cstr(table))));
}

// Rejects a row that is inserted while the log says that its key exists. That is possible where no index makes the key
// unique, as in a table that is partitioned by its state. One log cannot hold the entries of two rows.
void reject_second_rows(LogRun& run, StateChange* waiting) {
    for (StateChange* change = waiting; change != nullptr; change = change->next) {
        if (change->from != nullptr || (!run.all && cannot_be_written(*change))) continue;
        const uint32 hash = hash_of_key(*change);
        const StateChange* first = waiting;
        while (hash_of_key(*first) != hash) first = first->next;
        if (first != change) continue;
        const NewestEntry newest = find_newest(run, writer_for(run.tree, *change), *change, hash);
        if (newest.found && newest.to != nullptr && !key_is_unique(*change->binding))
            reject_second_row(*change->binding, change->key, newest.to);
    }
}

struct LogWork {
    Relation log;
    StateChange* changes;  // on return, those that wait, in order
    OutboxWriter** outbox;
    bool all;
    bool notes;
};

// A command may delete and insert a row in either order: a waiting state change may follow once another is written.
StateChange* write_what_follows(LogRun& run, StateChange* waiting) {
    do {
        waiting = write_changes(run, waiting, false);
    } while (waiting != nullptr && run.written > 0);
    return waiting;
}

void write_open_log(void* argument) {
    auto* work = static_cast<LogWork*>(argument);
    StateChange* changes = work->changes;
    LogRun run = {begin_tree(work->log, changes->binding->log, changes->binding->nkeys),
                  work->outbox,
                  nullptr,
                  0,
                  false,
                  work->all,
                  0,
                  false,
                  work->notes};
    if (changes->next != nullptr) {
        run.subjects = static_cast<Subjects*>(palloc(sizeof(Subjects)));
        run.subjects->clear();
    }
    StateChange* waiting = write_what_follows(run, in_order(changes));
    // Between statements no predecessor is pending.
    if (waiting != nullptr && executor_level == 0) {
        run.complete = true;
        waiting = write_what_follows(run, waiting);
        reject_second_rows(run, waiting);
    }
    if (work->all) waiting = write_changes(run, waiting, true);
    finish_tree(run.tree);
    work->changes = waiting;
}

}  // namespace

void write_log(Oid table, StateChange* changes, OutboxWriter** outbox, StateChange** rest, bool all, bool notes) {
    Relation log = try_relation_open(table, RowExclusiveLock);
    if (log == nullptr)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                        errmsg("the log table of \"%s\" does not exist", get_rel_name(changes->binding->root)),
                        errdetail("It was dropped while its binding existed."),
                        errhint("SELECT pawl.release(%s); then enforce the machine again with pawl.enforce.",
                                quote_literal_cstr(get_rel_name(changes->binding->root)))));
    LogWork work = {log, changes, outbox, all, notes};
    // A subscription often belongs to a superuser, but the log's triggers and expressions are code of the log's owner.
    if (IsLogicalWorker() && log->rd_rel->relowner != GetUserId())
        with_rights_of(log->rd_rel->relowner, write_open_log, &work, Reach::confined);
    else
        write_open_log(&work);
    table_close(log, NoLock);
    while (*rest != nullptr) rest = &(*rest)->next;
    *rest = work.changes;
}

uint64 histories_begun() noexcept {
    return begun;
}

void write_events(StateChange* changes, OutboxWriter** outbox, StateChange** rest, bool all, bool notes) {
    while (*rest != nullptr) rest = &(*rest)->next;
    StateChange** end = rest;
    Waiting subjects = {nullptr, 0, 0};
    for (StateChange *change = in_order(changes), *next; change != nullptr; change = next) {
        next = change->next;
        change->next = nullptr;
        const uint32 hash = hash_of_key(*change);
        if (all || (!cannot_be_written(*change) && !(change->may_wait && follows_insertion(*change, hash)) &&
                    !subjects.has(hash))) {
            for (const StateChange* each = change; each != nullptr; each = each->then)
                append_event(outbox, *each, nullptr);
            if (notes) note_written(*change, hash);
        } else {
            *end = change;
            end = &change->next;
            subjects.add(hash);
        }
    }
}

}  // namespace pawl
