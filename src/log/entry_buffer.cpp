// May ereport; owns nothing. See entry_buffer.hpp.
#include <algorithm>

#include "log/entry_buffer.hpp"

#include "catalog/row_identity.hpp"
#include "events/outbox.hpp"
#include "log/newest_entry.hpp"
#include "log/partitions.hpp"
#include "session/rights.hpp"

extern "C" {
#include "replication/logicalworker.h"
}

namespace pawl {

namespace {

constexpr int write_at = 4096;         // pending entries at which they are written in the middle of a statement
constexpr int keys_remembered = 4096;  // slots of the set of subjects in a batch; a power of two

struct EntryBuffer {
    MemoryContext context;  // of the state changes; reset when the buffer is empty
    StateChange* first;
    StateChange* last;
    int n;
    int full;  // at this many, they are written in the middle of a statement
    bool writing;
};

EntryBuffer buffer = {nullptr, nullptr, nullptr, 0, write_at, false};

void append(StateChange* change) {
    change->next = nullptr;
    if (buffer.last == nullptr)
        buffer.first = change;
    else
        buffer.last->next = change;
    buffer.last = change;
    ++buffer.n;
}

void reset_if_empty() {
    if (buffer.first != nullptr || buffer.context == nullptr) return;
    buffer.n = 0;
    buffer.full = write_at;
    forget_attribution();
    MemoryContextReset(buffer.context);
}

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

bool follows(const StateChange& change, const NewestEntry& newest) {
    const text* before = newest.found ? newest.to : nullptr;
    if (change.from == nullptr || before == nullptr) return change.from == nullptr && before == nullptr;
    return view(change.from) == view(before);
}

// Whether an earlier state change of the same subject (or of one with the same hash) is waiting.
bool queues_behind(const StateChange* waiting, uint32 hash) {
    for (const StateChange* other = waiting; other != nullptr; other = other->next)
        if (hash_of_key(*other) == hash) return true;
    return false;
}

// Whether the predecessor is still pending: this transaction has written the row before, and the newest entry is not
// the state that the row was in.
bool comes_too_early(const StateChange& change, const NewestEntry& newest, const StateChange* waiting, uint32 hash) {
    return change.may_wait && (!follows(change, newest) || queues_behind(waiting, hash));
}

// Whether a state change must wait regardless of its log. An entry written in another subtransaction would vanish if
// that is rolled back. While outer statements have rows to validate, the newest entry may have the right state by
// chance, because a row can return to a state.
bool cannot_be_written(const StateChange& change) {
    return change.subtransaction != GetCurrentSubTransactionId() || (change.may_wait && rows_are_deferred());
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

// Writes a state change after its newest entry, and those that the same write made of the row.
void write_change(LogRun& run, LogWriter* writer, const StateChange& change, uint32 hash, const NewestEntry& newest) {
    add_to_log(writer, change, newest);
    if (change.binding->events) append_event(run.outbox, change, &last_entry(writer));
    if (change.then != nullptr) {
        if (!keeps_all_rows(writer)) flush_log(writer);
        const NewestEntry mine = keeps_all_rows(writer) ? newest_after(writer) : find_newest(writer, *change.then);
        write_change(run, writer, *change.then, hash, mine);
    } else if (run.remembers) {
        remember_newest(change, hash, last_entry(writer));
    }
}

// Writes the state changes that need not wait (`force`: all) and returns the others, in order.
StateChange* write_changes(LogRun& run, StateChange* changes, bool force) {
    StateChange* waiting = nullptr;
    StateChange** waiting_end = &waiting;
    run.written = 0;
    for (StateChange *change = changes, *next; change != nullptr; change = next) {
        next = change->next;
        change->next = nullptr;
        bool wait = !run.all && cannot_be_written(*change);
        if (!wait) {
            const uint32 hash = hash_of_key(*change);
            LogWriter* writer = writer_for(run.tree, *change);
            const NewestEntry newest = find_newest(run, writer, *change, hash);
            wait = !force && comes_too_early(*change, newest, waiting, hash);
            if (!wait) {
                write_change(run, writer, *change, hash, newest);
                ++run.written;
            }
        }
        if (wait) {
            *waiting_end = change;
            waiting_end = &change->next;
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
};

void write_open_log(void* argument) {
    auto* work = static_cast<LogWork*>(argument);
    StateChange* changes = work->changes;
    LogRun run = {begin_tree(work->log, changes->binding->log, changes->binding->nkeys),
                  work->outbox,
                  nullptr,
                  0,
                  false,
                  work->all,
                  0};
    if (changes->next != nullptr) {
        run.subjects = static_cast<Subjects*>(palloc(sizeof(Subjects)));
        run.subjects->clear();
    }
    StateChange* waiting = in_order(changes);
    do {  // a command may delete and insert a row in either order: a waiting state change may follow now
        waiting = write_changes(run, waiting, false);
    } while (waiting != nullptr && run.written > 0);
    // Between statements no predecessor is pending.
    if (waiting != nullptr && executor_level == 0) reject_second_rows(run, waiting);
    if (work->all) waiting = write_changes(run, waiting, true);
    finish_tree(run.tree);
    work->changes = waiting;
}

// Writes the state changes of one log that need not wait; appends the others, in order, to `rest`.
void write_log(Oid table, StateChange* changes, OutboxWriter** outbox, StateChange** rest, bool all) {
    Relation log = try_relation_open(table, RowExclusiveLock);
    if (log == nullptr)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                        errmsg("the log table of \"%s\" does not exist", get_rel_name(changes->binding->root)),
                        errdetail("It was dropped while its binding existed."),
                        errhint("SELECT pawl.release(%s); then enforce the machine again with pawl.enforce.",
                                quote_literal_cstr(get_rel_name(changes->binding->root)))));
    LogWork work = {log, changes, outbox, all};
    // A subscription often belongs to a superuser, but the log's triggers and expressions are code of the log's owner.
    if (IsLogicalWorker() && log->rd_rel->relowner != GetUserId())
        with_rights_of(log->rd_rel->relowner, write_open_log, &work, Reach::confined);
    else
        write_open_log(&work);
    table_close(log, NoLock);
    while (*rest != nullptr) rest = &(*rest)->next;
    *rest = work.changes;
}

// Writes state changes of bindings that have events but no log. Without a log a missing predecessor cannot be detected,
// so a state change waits as long as one is possible.
void write_events(StateChange* changes, OutboxWriter** outbox, StateChange** rest, bool all) {
    while (*rest != nullptr) rest = &(*rest)->next;
    StateChange** end = rest;
    for (StateChange *change = in_order(changes), *next; change != nullptr; change = next) {
        next = change->next;
        change->next = nullptr;
        if (all || (!cannot_be_written(*change) && !queues_behind(*rest, hash_of_key(*change)))) {
            for (const StateChange* each = change; each != nullptr; each = each->then)
                append_event(outbox, *each, nullptr);
        } else {
            *end = change;
            end = &change->next;
        }
    }
}

// Removes the state changes of one log from the list and returns them in order.
StateChange* take_log(StateChange** list, Oid table) {
    StateChange* taken = nullptr;
    StateChange** end = &taken;
    for (StateChange** link = list; *link != nullptr;) {
        StateChange* change = *link;
        if (change->binding->log.table == table) {
            *link = change->next;
            change->next = nullptr;
            *end = change;
            end = &change->next;
        } else {
            link = &change->next;
        }
    }
    return taken;
}

StateChange* last_of(StateChange* change) {
    while (change != nullptr && change->next != nullptr) change = change->next;
    return change;
}

void write_all(bool all) {
    MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "pawl pending entries", ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(scratch);
    StateChange* rest = nullptr;
    OutboxWriter* outbox = nullptr;
    while (buffer.first != nullptr) {
        Oid table = buffer.first->binding->log.table;
        StateChange* changes = take_log(&buffer.first, table);
        buffer.last = last_of(buffer.first);
        if (OidIsValid(table))
            write_log(table, changes, &outbox, &rest, all);
        else
            write_events(changes, &outbox, &rest, all);
    }
    finish_outbox(outbox);
    buffer.first = rest;
    buffer.last = last_of(rest);
    buffer.n = 0;
    for (StateChange* change = rest; change != nullptr; change = change->next) ++buffer.n;
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(scratch);
}

bool has_work(bool all) {
    for (const StateChange* change = buffer.first; change != nullptr; change = change->next)
        if (all || !cannot_be_written(*change)) return true;
    return false;
}

StateChange** list_changes() {
    auto** changes = static_cast<StateChange**>(palloc(sizeof(StateChange*) * buffer.n));
    int n = 0;
    for (StateChange* change = buffer.first; change != nullptr; change = change->next) changes[n++] = change;
    return changes;
}

void take_back(StateChange** changes, int n) noexcept {
    buffer.first = buffer.last = nullptr;
    buffer.n = 0;
    for (int i = 0; i < n; ++i) append(changes[i]);
}

}  // namespace

// A database that receives the log from a publisher must not write it again.
bool writes_entries(const Binding& binding) {
    return is_recorded(binding) &&
           !(SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA && binding.log_is_replicated);
}

void buffer_changes(const Binding& binding, TupleTableSlot* row, const Outcome* outcomes, int n,
                    const AttributionOverride* overrides) {
    if (buffer.n >= buffer.full) write_pending_entries(false);
    if (buffer.context == nullptr)
        buffer.context = AllocSetContextCreate(TopMemoryContext, "pawl entry buffer", ALLOCSET_DEFAULT_SIZES);
    const Attribution* attribution = current_attribution(buffer.context);
    MemoryContext caller = MemoryContextSwitchTo(buffer.context);
    StateChange* first = nullptr;
    StateChange** link = &first;
    for (int i = 0; i < n; ++i, link = &(*link)->then)
        *link = make_change(binding, row, outcomes[i], *attribution, overrides);
    append(first);
    MemoryContextSwitchTo(caller);
}

void write_pending_entries(bool all) {
    if (buffer.writing || !has_work(all)) return;
    StateChange** noted = list_changes();
    const int n = buffer.n;
    buffer.writing = true;
    PG_TRY();
    { write_all(all); }
    PG_CATCH();
    {
        // Only the failed subtransaction is rolled back; state changes of the outer ones have still to be written.
        take_back(noted, n);
        buffer.writing = false;
        PG_RE_THROW();
    }
    PG_END_TRY();
    buffer.writing = false;
    buffer.full = buffer.n + write_at;
    pfree(noted);
    reset_if_empty();
}

bool entry_buffer_is_empty() noexcept {
    return buffer.first == nullptr;
}

bool entry_buffer_is_writing() noexcept {
    return buffer.writing;
}

void clear_entry_buffer() noexcept {
    buffer.first = buffer.last = nullptr;
    buffer.writing = false;
    reset_if_empty();
}

void drop_changes_of(SubTransactionId subtransaction) noexcept {
    for (StateChange** link = &buffer.first; *link != nullptr;) {
        if ((*link)->subtransaction >= subtransaction) {
            *link = (*link)->next;
            --buffer.n;
        } else {
            link = &(*link)->next;
        }
    }
    buffer.last = last_of(buffer.first);
    reset_if_empty();
}

void reassign_changes(SubTransactionId from, SubTransactionId to) noexcept {
    for (StateChange* change = buffer.first; change != nullptr; change = change->next)
        if (change->subtransaction == from) change->subtransaction = to;
}

}  // namespace pawl
