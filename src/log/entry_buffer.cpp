// May ereport; owns nothing. See entry_buffer.hpp.
#include "log/entry_buffer.hpp"

#include "log/write_changes.hpp"
#include "session/statements.hpp"

namespace pawl {

namespace {

constexpr int write_at = 4096;  // pending entries at which they are written in the middle of a statement

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

void write_all(bool all, bool notes) {
    MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "pawl pending entries", ALLOCSET_DEFAULT_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(scratch);
    StateChange* rest = nullptr;
    OutboxWriter* outbox = nullptr;
    while (buffer.first != nullptr) {
        Oid table = buffer.first->binding->log.table;
        StateChange* changes = take_log(&buffer.first, table);
        buffer.last = last_of(buffer.first);
        if (OidIsValid(table))
            write_log(table, changes, &outbox, &rest, all, notes);
        else
            write_events(changes, &outbox, &rest, all, notes);
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
    if (buffer.n >= buffer.full) write_pending_entries(false, true);
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

void buffer_beginning(const Binding& binding, TupleTableSlot* row, text* state) {
    Outcome outcome = {};
    outcome.to = state;
    outcome.event = attach_event();
    outcome.command = GetCurrentCommandId(false);
    outcome.begins = true;
    buffer_changes(binding, row, &outcome, 1, nullptr);
}

void write_pending_entries(bool all, bool crowded) {
    if (buffer.writing || !has_work(all)) return;
    StateChange** noted = list_changes();
    const int n = buffer.n;
    buffer.writing = true;
    PG_TRY();
    { write_all(all, !crowded && running_statement != nullptr); }
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

bool has_pending_entry(const StateChange& of_row) {
    const uint32 hash = hash_of_key(of_row);
    for (const StateChange* change = buffer.first; change != nullptr; change = change->next)
        if (change->binding->log.table == of_row.binding->log.table && hash_of_key(*change) == hash) return true;
    return false;
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
