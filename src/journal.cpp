// May ereport; owns nothing. See journal.hpp.
#include "journal.hpp"

#include "log_writer.hpp"

extern "C" {
#include "common/hashfn.h"
}

namespace pawl {

namespace {

constexpr int write_at = 4096;        // hops that wait before they are written in the middle of a statement
constexpr int keys_remembered = 4096;  // slots of the set that notices a second hop of a subject in a batch; a power of two

struct Journal {
    MemoryContext context;  // of the hops; reset when the journal is empty
    Hop* first;
    Hop* last;
    int n;
    bool writing;
};

Journal journal = {};

void append(Hop* hop) {
    hop->next = nullptr;
    if (journal.last == nullptr)
        journal.first = hop;
    else
        journal.last->next = hop;
    journal.last = hop;
    ++journal.n;
}

void reset_if_empty() {
    if (journal.first != nullptr || journal.context == nullptr) return;
    journal.n = 0;
    forget_attribution();
    MemoryContextReset(journal.context);
}

// A database that receives the log from a publisher must not write it a second time.
bool keeps_log(const Attachment& attachment) {
    return OidIsValid(attachment.log.table) &&
           !(SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA && attachment.log_is_replicated);
}

uint32 hash_of_key(const Hop& hop) {
    uint32 hash = 0;
    for (int i = 0; i < hop.attachment->nkeys; ++i) {
        hash = hash_combine(hash, hash_key_value(hop.attachment->keys[i], hop.key[i]));
    }
    return hash;
}

// Subjects of the current batch, by hash: a collision only makes a batch shorter.
struct Subjects {
    uint32 hashes[keys_remembered];
    bool used[keys_remembered];

    void clear() { memset(used, 0, sizeof(used)); }

    // False when it is (or seems to be) there already.
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

bool follows(const Hop& hop, const Tail& tail) {
    const text* before = tail.found ? tail.to : nullptr;
    if (hop.from == nullptr || before == nullptr) return hop.from == nullptr && before == nullptr;
    return view(hop.from) == view(before);
}

// Whether an earlier hop of the same subject still waits.
bool queues_behind(const Hop* waiting, const Hop& hop, uint32 hash) {
    for (const Hop* other = waiting; other != nullptr; other = other->next)
        if (other->command < hop.command && hash_of_key(*other) == hash) return true;
    return false;
}

// Writes all hops of one log that can be written; the others go, in order, to `rest`.
void write_log(Oid table, Hop* hops, Hop** rest, bool all) {
    Relation log = try_relation_open(table, RowExclusiveLock);
    if (log == nullptr)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("the log table of \"%s\" is gone", get_rel_name(hops->attachment->root)),
                        errdetail("Somebody dropped it while the lifecycle with its history stayed attached."),
                        errhint("SELECT pawl.release(%s); and attach it again with pawl.enforce.",
                                quote_literal_cstr(get_rel_name(hops->attachment->root)))));
    LogWriter* writer = begin_log(log, hops->attachment->log, hops->attachment->nkeys, LogUse::append);
    Subjects* subjects = nullptr;  // only where there is more than one hop
    if (hops->next != nullptr) {
        subjects = static_cast<Subjects*>(palloc(sizeof(Subjects)));
        subjects->clear();
    }
    Hop* waiting = nullptr;  // of this log
    Hop** waiting_end = &waiting;
    int in_batch = 0;

    for (Hop* hop = hops; hop != nullptr;) {
        Hop* next = hop->next;
        hop->next = nullptr;
        const uint32 hash = hash_of_key(*hop);
        if (subjects != nullptr && (!subjects->add(hash) || ++in_batch > keys_remembered / 2)) {
            flush_log(writer);
            subjects->clear();
            subjects->add(hash);
            in_batch = 1;
        }
        Tail tail = find_tail(writer, *hop);
        // A row written in a subtransaction that is not the hop's own would vanish with it.
        const bool wait = !all && (hop->subtransaction != GetCurrentSubTransactionId() ||
                                   (hop->may_wait && (!follows(*hop, tail) || queues_behind(waiting, *hop, hash))));
        if (wait) {
            *waiting_end = hop;
            waiting_end = &hop->next;
        } else {
            add_to_log(writer, *hop, tail);
            // What waited may follow now: from the start, in order.
            if (waiting != nullptr) {
                *waiting_end = next;
                next = waiting;
                waiting = nullptr;
                waiting_end = &waiting;
            }
        }
        hop = next;
    }
    finish_log(writer);
    table_close(log, NoLock);
    while (*rest != nullptr) rest = &(*rest)->next;
    *rest = waiting;
}

// Takes the hops of the first log from the list, in order.
Hop* take_log(Hop** list, Oid table) {
    Hop* taken = nullptr;
    Hop** end = &taken;
    for (Hop** link = list; *link != nullptr;) {
        Hop* hop = *link;
        if (hop->attachment->log.table == table) {
            *link = hop->next;
            hop->next = nullptr;
            *end = hop;
            end = &hop->next;
        } else {
            link = &hop->next;
        }
    }
    return taken;
}

Hop* last_of(Hop* hop) {
    while (hop != nullptr && hop->next != nullptr) hop = hop->next;
    return hop;
}

void write_all(bool all) {
    MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "pawl journal", ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(scratch);
    Hop* rest = nullptr;
    while (journal.first != nullptr) {
        Oid table = journal.first->attachment->log.table;
        Hop* hops = take_log(&journal.first, table);
        journal.last = last_of(journal.first);
        write_log(table, hops, &rest, all);
    }
    journal.first = rest;
    journal.last = last_of(rest);
    journal.n = 0;
    for (Hop* hop = rest; hop != nullptr; hop = hop->next) ++journal.n;
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(scratch);
}

// The hops as they stand, before a write inside a subtransaction that may fail: those of the outer ones, which waited, must still
// stand when it has been rolled back. Its own, written or not, go with it.
Hop** remember_order() {
    auto* order = static_cast<Hop**>(palloc(sizeof(Hop*) * journal.n));
    int n = 0;
    for (Hop* hop = journal.first; hop != nullptr; hop = hop->next) order[n++] = hop;
    return order;
}

void restore_order(Hop** order, int n) noexcept {
    journal.first = journal.last = nullptr;
    journal.n = 0;
    for (int i = 0; i < n; ++i) append(order[i]);
}

Datum copied_key(const KeyColumn& key, TupleTableSlot* row) {
    bool null;
    Datum value = slot_getattr(row, key.attribute, &null);
    if (null)
        ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION),
                        errmsg("null in key column \"%s\" of a row with history", NameStr(key.name)),
                        errdetail("The log tells rows apart by their key.")));
    if (key.by_value) return value;
    // Never a pointer into a TOAST table whose row may be gone when the hop is written.
    if (key.length == -1) return PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
    return datumCopy(value, false, key.length);
}

template <typename T>
T* copied(T* value) {
    return value == nullptr ? nullptr : static_cast<T*>(memcpy(palloc(VARSIZE_ANY(value)), value, VARSIZE_ANY(value)));
}

// Makes a hop in the current memory context.
Hop* make_hop(const Attachment& attachment, TupleTableSlot* row, const Verdict& verdict, const Attribution& who, const Intent* intent) {
    auto* hop = static_cast<Hop*>(palloc0(offsetof(Hop, key) + sizeof(Datum) * attachment.nkeys));
    hop->attachment = &attachment;
    hop->subtransaction = GetCurrentSubTransactionId();
    hop->command = verdict.command;
    hop->may_wait = verdict.may_wait;
    hop->from = verdict.from;
    hop->to = verdict.to;
    hop->event = verdict.event;
    hop->actor = who.actor;
    hop->processor = who.processor;
    hop->correlation_id = who.correlation_id;
    hop->metadata = who.metadata;
    if (intent != nullptr) {
        if (intent->processor != nullptr) hop->processor = copied(intent->processor);
        if (intent->correlation_id != nullptr) hop->correlation_id = copied(intent->correlation_id);
        if (intent->with_metadata) hop->metadata = copied(intent->metadata);
    }
    hop->at = GetCurrentTimestamp();
    for (int i = 0; i < attachment.nkeys; ++i) hop->key[i] = copied_key(attachment.keys[i], row);
    return hop;
}

}  // namespace

void record_hop(const Attachment& attachment, TupleTableSlot* row, const Verdict& verdict, Intent* intent) {
    if (!keeps_log(attachment)) return;
    if (intent != nullptr && intent->capture != nullptr && intent->captured == nullptr) {
        MemoryContext caller = MemoryContextSwitchTo(intent->capture);
        forget_attribution();  // one of its own, which lives as long as the hop
        intent->captured = make_hop(attachment, row, verdict, *current_attribution(intent->capture), intent);
        forget_attribution();
        MemoryContextSwitchTo(caller);
        return;
    }
    if (journal.n >= write_at) write_journal(false);
    if (journal.context == nullptr) journal.context = AllocSetContextCreate(TopMemoryContext, "pawl hops", ALLOCSET_DEFAULT_SIZES);
    const Attribution* who = current_attribution(journal.context);
    MemoryContext caller = MemoryContextSwitchTo(journal.context);
    append(make_hop(attachment, row, verdict, *who, intent));
    MemoryContextSwitchTo(caller);
}

void write_journal(bool all) {
    if (journal.first == nullptr || journal.writing) return;
    Hop** const order = GetCurrentSubTransactionId() == TopSubTransactionId ? nullptr : remember_order();
    const int n = journal.n;
    journal.writing = true;
    PG_TRY();
    {
        write_all(all);
    }
    PG_CATCH();
    {
        journal.writing = false;
        if (order != nullptr) restore_order(order, n);
        PG_RE_THROW();
    }
    PG_END_TRY();
    journal.writing = false;
    if (order != nullptr) pfree(order);
    reset_if_empty();
}

bool journal_is_empty() noexcept { return journal.first == nullptr; }

bool journal_is_writing() noexcept { return journal.writing; }

void forget_journal() noexcept {
    journal.first = journal.last = nullptr;
    journal.writing = false;
    reset_if_empty();
}

void drop_hops_of(SubTransactionId subtransaction) noexcept {
    for (Hop** link = &journal.first; *link != nullptr;) {
        if ((*link)->subtransaction >= subtransaction) {
            *link = (*link)->next;
            --journal.n;
        } else {
            link = &(*link)->next;
        }
    }
    journal.last = last_of(journal.first);
    reset_if_empty();
}

void reassign_hops(SubTransactionId from, SubTransactionId to) noexcept {
    for (Hop* hop = journal.first; hop != nullptr; hop = hop->next)
        if (hop->subtransaction == from) hop->subtransaction = to;
}

}  // namespace pawl
