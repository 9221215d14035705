// Constants and types; owns nothing. Tasks that a report makes claimable, and that begin at once for its worker: they
// are counted down and claimed by one UPDATE.
#pragma once

#include "packs/saga/flows.hpp"

namespace pawl::saga {

// Where a task stands in claim order: the highest priority first, then by key.
struct Rank {
    int32 priority;
    pg_uuid_t flow;
    int32 node;
};

struct Starting {
    text* worker;
    text* queue;
    const Interval* lease;  // null: that of the binding
    int room;               // how many more tasks the worker takes
    const Rank* waiting;    // what is claimed before this task begins; null: everything
    MemoryContext memory;   // of the rows
    HeapTuple* rows;        // of pawl_saga.tasks, begun; there is place for as many as the worker takes
    int n;
    int under_way;        // statements that update atoms, as the report began
    const Flows* locked;  // as they were before the report; null: something has followed from it since
    bool missed;          // other tasks became claimable
    bool decided;         // tasks may have become claimable in any way, also to be reverted
};

// The note is a variable of the backend and not a setting, which any session could set. Taking it removes it, so that
// one follow-up alone starts tasks, and not one of a function that this calls. Null: nothing is noted.
Starting* take_starting() noexcept;
// The same, and nothing is taken if the follow-up is one of another statement than the report's.
Starting* take_starting(int under_way) noexcept;
void note_starting(Starting* starting) noexcept;

// While it lives, a note can be made; what was noted before comes back.
class NotedStarting {
public:
    NotedStarting() noexcept : before_(take_starting()) {}
    ~NotedStarting() noexcept { note_starting(before_); }
    NotedStarting(const NotedStarting&) = delete;
    NotedStarting& operator=(const NotedStarting&) = delete;

private:
    Starting* before_;
};

}  // namespace pawl::saga
