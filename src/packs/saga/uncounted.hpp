// May throw and may ereport. State changes of atoms that are not counted yet: a statement counts those that it made
// when its row triggers have run, and these can be a user's, which change flows as well. Until then such a flow does
// not end, and what they count anew is not counted a second time.
#pragma once

#include "pg/postgres.hpp"

namespace pawl::saga {

// A list of flows that lives as long as the transaction.
struct FlowIds {
    pg_uuid_t* items;
    int n;
    int room;

    bool has(const pg_uuid_t& flow) const noexcept;
    void add(const pg_uuid_t& flow);  // ereports
    void remove(const pg_uuid_t& flow) noexcept;
};

// A moment in the session, as note_change counts them.
using Moment = uint64;

// Begins a statement that updates tasks, or retries; it is under way until end_statement, or until its subtransaction
// is rolled back. Ereports.
void begin_statement(bool of_retries);
// Ends the innermost one and returns when it began.
Moment end_statement() noexcept;
int statements_under_way() noexcept;

// The innermost statement ends a task of this flow. Ereports.
void note_end(const pg_uuid_t& flow);
// Whether a statement under way has ended atoms of the flow, or may have.
bool is_uncounted(const pg_uuid_t& flow) noexcept;

// The flow has changed its state, or was counted anew. Ereports.
void note_change(const pg_uuid_t& flow);
// Whether that was noted since then: of this flow, or of any.
bool has_changed(const pg_uuid_t& flow, Moment since) noexcept;
bool has_any_changed(Moment since) noexcept;

}  // namespace pawl::saga
