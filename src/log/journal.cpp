// May ereport; owns nothing. See journal.hpp.
#include <algorithm>

#include "log/journal.hpp"

#include "catalog/row_identity.hpp"
#include "log/log_tree.hpp"
#include "events/outbox.hpp"
#include "session/rights.hpp"
#include "log/tail_memory.hpp"

extern "C" {
#include "common/hashfn.h"
#include "replication/logicalworker.h"
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
    int full;  // so many are written in the middle of a statement
    bool writing;
};

Journal journal = {nullptr, nullptr, nullptr, 0, write_at, false};

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
    journal.full = write_at;
    forget_attribution();
    MemoryContextReset(journal.context);
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
bool queues_behind(const Hop* waiting, uint32 hash) {
    for (const Hop* other = waiting; other != nullptr; other = other->next)
        if (hash_of_key(*other) == hash) return true;
    return false;
}

// Whether the hop's predecessor is still on its way: the row was written by this transaction before, and its log does not end with
// the state it was in.
bool comes_too_early(const Hop& hop, const Tail& tail, const Hop* waiting, uint32 hash) {
    return hop.may_wait && (!follows(hop, tail) || queues_behind(waiting, hash));
}

// Whether a hop must wait, whatever its log says. A row written in a subtransaction that is not the hop's own would vanish with it.
// While outer statements have rows that wait to be judged, a row that goes in a circle only looks as if it followed.
bool cannot_be_written(const Hop& hop) {
    return hop.subtransaction != GetCurrentSubTransactionId() || (hop.may_wait && rows_are_unjudged());
}

// Puts hops into the order in which they happened: that of the commands that made them. They are noted in it unless triggers nest.
Hop* in_order(Hop* hops) {
    int n = 0;
    bool ordered = true;
    for (Hop* hop = hops; hop != nullptr; hop = hop->next, ++n)
        if (hop->next != nullptr && hop->next->command < hop->command) ordered = false;
    if (ordered) return hops;
    auto** sorted = static_cast<Hop**>(palloc(sizeof(Hop*) * n));
    for (int i = 0; i < n; ++i, hops = hops->next) sorted[i] = hops;
    std::stable_sort(sorted, sorted + n, [](const Hop* a, const Hop* b) { return a->command < b->command; });
    for (int i = 0; i < n; ++i) sorted[i]->next = i + 1 < n ? sorted[i + 1] : nullptr;
    return sorted[0];
}

// A log that is being written.
struct LogRun {
    LogTree* tree;
    OutboxWriter** outbox;
    Subjects* subjects;  // null where there is one hop only
    int in_batch;
    bool remembers;  // see tail_memory.hpp; of the log that the hop in hand goes to
    bool all;
    int written;
};

Tail find_tail(LogRun& run, LogWriter* writer, const Hop& hop, uint32 hash) {
    run.remembers = remembers_tails(hop.attachment->log) && keeps_all_rows(writer);
    if (run.subjects != nullptr && (!run.subjects->add(hash) || ++run.in_batch > keys_remembered / 2)) {
        flush_tree(run.tree);
        run.subjects->clear();
        run.subjects->add(hash);
        run.in_batch = 1;
    }
    Tail tail;
    return run.remembers && recall_tail(hop, hash, &tail) ? tail : find_tail(writer, hop);
}

// Writes the hops that can be written (`force`: all) and returns the others, in order.
Hop* write_hops(LogRun& run, Hop* hops, bool force) {
    Hop* waiting = nullptr;
    Hop** waiting_end = &waiting;
    run.written = 0;
    for (Hop *hop = hops, *next; hop != nullptr; hop = next) {
        next = hop->next;
        hop->next = nullptr;
        bool wait = !run.all && cannot_be_written(*hop);
        if (!wait) {
            const uint32 hash = hash_of_key(*hop);
            LogWriter* writer = writer_for(run.tree, *hop);
            const Tail tail = find_tail(run, writer, *hop, hash);
            wait = !force && comes_too_early(*hop, tail, waiting, hash);
            if (!wait) {
                add_to_log(writer, *hop, tail);
                if (run.remembers) remember_tail(*hop, hash, last_entry(writer));
                if (hop->attachment->events) append_event(run.outbox, *hop, &last_entry(writer));
                ++run.written;
            }
        }
        if (wait) {
            *waiting_end = hop;
            waiting_end = &hop->next;
        }
    }
    return waiting;
}

[[noreturn]] void refuse_second_row(const Attachment& attachment, const Datum* key, const text* state) {
    const char* table = quote_qualified_identifier(get_namespace_name(get_rel_namespace(attachment.root)), get_rel_name(attachment.root));
    ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION), errmsg("%s has a row with key %s already", table, describe_key(attachment, key)),
                    errdetail("Its log ends in state %s. One log cannot tell the lives of two rows.", quoted_state(state)),
                    errhint("SELECT * FROM pawl.verify(%s); says if that row is gone.", quote_literal_cstr(table))));
}

// A row that begins while the log says it is there is a second row of its key, where no index forbids that (a table that is
// partitioned by its state). One log cannot tell the lives of two rows.
void refuse_second_rows(LogRun& run, Hop* waiting) {
    for (Hop* hop = waiting; hop != nullptr; hop = hop->next) {
        if (hop->from != nullptr || (!run.all && cannot_be_written(*hop))) continue;
        const uint32 hash = hash_of_key(*hop);
        const Hop* first = waiting;
        while (hash_of_key(*first) != hash) first = first->next;
        if (first != hop) continue;
        const Tail tail = find_tail(run, writer_for(run.tree, *hop), *hop, hash);
        if (tail.found && tail.to != nullptr && !key_is_unique(*hop->attachment)) refuse_second_row(*hop->attachment, hop->key, tail.to);
    }
}

struct LogWork {
    Relation log;
    Hop* hops;  // then those that wait, in order
    OutboxWriter** outbox;
    bool all;
};

void write_open_log(void* argument) {
    auto* work = static_cast<LogWork*>(argument);
    Hop* hops = work->hops;
    LogRun run = {begin_tree(work->log, hops->attachment->log, hops->attachment->nkeys), work->outbox, nullptr, 0, false, work->all, 0};
    if (hops->next != nullptr) {
        run.subjects = static_cast<Subjects*>(palloc(sizeof(Subjects)));
        run.subjects->clear();
    }
    Hop* waiting = in_order(hops);
    do {  // one command may delete a row and insert it again, in either order: what waited may follow now
        waiting = write_hops(run, waiting, false);
    } while (waiting != nullptr && run.written > 0);
    // Between statements nothing is on its way any more.
    if (waiting != nullptr && executor_level == 0) refuse_second_rows(run, waiting);
    if (work->all) waiting = write_hops(run, waiting, true);
    finish_tree(run.tree);
    work->hops = waiting;
}

// Writes all hops of one log that can be written; the others go, in order, to `rest`.
void write_log(Oid table, Hop* hops, OutboxWriter** outbox, Hop** rest, bool all) {
    Relation log = try_relation_open(table, RowExclusiveLock);
    if (log == nullptr)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("the log table of \"%s\" is gone", get_rel_name(hops->attachment->root)),
                        errdetail("Somebody dropped it while the lifecycle with its history stayed attached."),
                        errhint("SELECT pawl.release(%s); and attach it again with pawl.enforce.",
                                quote_literal_cstr(get_rel_name(hops->attachment->root)))));
    LogWork work = {log, hops, outbox, all};
    // A subscription is often a superuser's, and the log's triggers and expressions are its owner's code.
    if (IsLogicalWorker() && log->rd_rel->relowner != GetUserId())
        with_rights_of(log->rd_rel->relowner, write_open_log, &work, Reach::confined);
    else
        write_open_log(&work);
    table_close(log, NoLock);
    while (*rest != nullptr) rest = &(*rest)->next;
    *rest = work.hops;
}

// Hops of lifecycles that have events but no log. Nothing tells whether a predecessor is missing, so a hop waits as long as one may be.
void write_events(Hop* hops, OutboxWriter** outbox, Hop** rest, bool all) {
    while (*rest != nullptr) rest = &(*rest)->next;
    Hop** end = rest;
    for (Hop *hop = in_order(hops), *next; hop != nullptr; hop = next) {
        next = hop->next;
        hop->next = nullptr;
        if (all || (!cannot_be_written(*hop) && !queues_behind(*rest, hash_of_key(*hop)))) {
            append_event(outbox, *hop, nullptr);
        } else {
            *end = hop;
            end = &hop->next;
        }
    }
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
    OutboxWriter* outbox = nullptr;
    while (journal.first != nullptr) {
        Oid table = journal.first->attachment->log.table;
        Hop* hops = take_log(&journal.first, table);
        journal.last = last_of(journal.first);
        if (OidIsValid(table))
            write_log(table, hops, &outbox, &rest, all);
        else
            write_events(hops, &outbox, &rest, all);
    }
    finish_outbox(outbox);
    journal.first = rest;
    journal.last = last_of(rest);
    journal.n = 0;
    for (Hop* hop = rest; hop != nullptr; hop = hop->next) ++journal.n;
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(scratch);
}

bool has_work(bool all) {
    for (const Hop* hop = journal.first; hop != nullptr; hop = hop->next)
        if (all || !cannot_be_written(*hop)) return true;
    return false;
}

Hop** list_hops() {
    auto** hops = static_cast<Hop**>(palloc(sizeof(Hop*) * journal.n));
    int n = 0;
    for (Hop* hop = journal.first; hop != nullptr; hop = hop->next) hops[n++] = hop;
    return hops;
}

void take_back(Hop** hops, int n) noexcept {
    journal.first = journal.last = nullptr;
    journal.n = 0;
    for (int i = 0; i < n; ++i) append(hops[i]);
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

Jsonb* with_remark(Jsonb* metadata, Jsonb* remark) {
    if (metadata == nullptr) return copied(remark);
    return DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(metadata), JsonbPGetDatum(remark)));
}

void push_number(JsonbParseState** state, const char* key, Numeric number) {
    JsonbValue value = {};
    value.type = jbvString;
    value.val.string.val = const_cast<char*>(key);
    value.val.string.len = static_cast<int>(strlen(key));
    pushJsonbValue(state, WJB_KEY, &value);
    value.type = jbvNumeric;
    value.val.numeric = number;
    pushJsonbValue(state, WJB_VALUE, &value);
}

// What no caller can say otherwise: the token that the row has after the state change, and the transaction that made it.
Jsonb* with_fence(Jsonb* metadata, int64 fence) {
    if (metadata != nullptr && !JB_ROOT_IS_OBJECT(metadata)) return metadata;
    JsonbParseState* state = nullptr;
    pushJsonbValue(&state, WJB_BEGIN_OBJECT, nullptr);
    if (fence >= 0) push_number(&state, "fence", int64_to_numeric(fence));
    push_number(&state, "transaction_id", int64_to_numeric(static_cast<int64>(U64FromFullTransactionId(GetTopFullTransactionId()))));
    return with_remark(metadata, JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, nullptr)));
}

std::string_view text_in(TupleTableSlot* row, AttrNumber attribute) {
    bool null = true;
    const Datum value = attribute == InvalidAttrNumber ? 0 : slot_getattr(row, attribute, &null);
    return null ? std::string_view() : view(DatumGetTextPP(value));
}

// The trace that the row belongs to, by its own columns; null: none.
Jsonb* trace_in(const Attachment& attachment, TupleTableSlot* row) {
    const std::string_view traceparent = text_in(row, attachment.traceparent);
    return traceparent.empty() ? nullptr : trace_of(traceparent, text_in(row, attachment.tracestate));
}

// Makes a hop in the current memory context.
Hop* make_hop(const Attachment& attachment, TupleTableSlot* row, const Verdict& verdict, const Attribution& who, const Said* said) {
    auto* hop = static_cast<Hop*>(palloc0(offsetof(Hop, key) + sizeof(Datum) * attachment.nkeys));
    hop->attachment = &attachment;
    hop->subtransaction = verdict.subtransaction != InvalidSubTransactionId ? verdict.subtransaction : GetCurrentSubTransactionId();
    hop->command = verdict.command;
    hop->may_wait = verdict.may_wait;
    hop->left = verdict.left;
    hop->from = verdict.from;
    hop->to = verdict.to;
    hop->roles = verdict.roles;
    hop->event = verdict.event;
    hop->actor = who.actor;
    hop->processor = who.processor;
    hop->correlation_id = who.correlation_id;
    hop->metadata = who.metadata;
    if (said != nullptr) {
        if (said->processor != nullptr) hop->processor = copied(said->processor);
        if (said->correlation_id != nullptr) hop->correlation_id = copied(said->correlation_id);
        if (said->with_metadata) hop->metadata = with_trace(who.trace, copied(said->metadata));
    }
    // who moves a row in a trace of his own says so; else the move belongs to the row's
    if (attachment.traceparent != InvalidAttrNumber && who.trace == nullptr) hop->metadata = with_trace(trace_in(attachment, row), hop->metadata);
    if (verdict.processor != nullptr && verdict.processor != hop->processor) hop->processor = copied(const_cast<text*>(verdict.processor));
    if (verdict.remark != nullptr) hop->metadata = with_remark(hop->metadata, verdict.remark);
    if (verdict.facts != nullptr && (hop->metadata == nullptr || JB_ROOT_IS_OBJECT(hop->metadata))) hop->metadata = with_remark(hop->metadata, verdict.facts);
    if (attachment.log_fence) hop->metadata = with_fence(hop->metadata, verdict.fence);
    hop->at = verdict.at != 0 ? verdict.at : GetCurrentTimestamp();
    for (int i = 0; i < attachment.nkeys; ++i) hop->key[i] = copied_key(attachment.keys[i], row);
    return hop;
}

}  // namespace

// A database that receives the log from a publisher must not write it a second time.
bool keeps_record(const Attachment& attachment) {
    return is_recorded(attachment) && !(SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA && attachment.log_is_replicated);
}

Hop* make_hop_in(MemoryContext context, const Attachment& attachment, TupleTableSlot* row, const Verdict& verdict, const Said* said) {
    MemoryContext caller = MemoryContextSwitchTo(context);
    forget_attribution();  // one of its own, which lives as long as the hop
    Hop* hop = make_hop(attachment, row, verdict, *current_attribution(context), said);
    forget_attribution();
    MemoryContextSwitchTo(caller);
    return hop;
}

void record_hop(const Attachment& attachment, TupleTableSlot* row, const Verdict& verdict, const Said* said) {
    if (journal.n >= journal.full) write_journal(false);
    if (journal.context == nullptr) journal.context = AllocSetContextCreate(TopMemoryContext, "pawl hops", ALLOCSET_DEFAULT_SIZES);
    const Attribution* who = current_attribution(journal.context);
    MemoryContext caller = MemoryContextSwitchTo(journal.context);
    append(make_hop(attachment, row, verdict, *who, said));
    MemoryContextSwitchTo(caller);
}

void write_journal(bool all) {
    if (journal.writing || !has_work(all)) return;
    Hop** noted = list_hops();
    const int n = journal.n;
    journal.writing = true;
    PG_TRY();
    {
        write_all(all);
    }
    PG_CATCH();
    {
        // Only the subtransaction that failed is undone; hops of the ones around it have still to be written.
        take_back(noted, n);
        journal.writing = false;
        PG_RE_THROW();
    }
    PG_END_TRY();
    journal.writing = false;
    journal.full = journal.n + write_at;
    pfree(noted);
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
