// Pure; throws nothing and does not ereport. Where the orchestrator moves a task, given what its steps do.
#pragma once

#include <string_view>

namespace pawl::dag {

// The steps of a task by what they are to it.
struct Counts {
    int total;
    int ready;
    int in_flight;
    int waiting;
    int failed;
    int ended;  // satisfied or cancelled
};

// An event of the task machine and the state that it leads to. Two are the same if they are the same object.
struct Move {
    const char* event;
    std::string_view to;
};

extern const Move steps_enqueued;  // of a task that enqueues, once its steps are enqueued

inline constexpr int most_moves = 4;  // of a task in one turn

// The next transition of a task in this state; null: it waits. `blocks`: its failure_policy is block.
const Move* next_move(std::string_view state, const Counts& counts, bool blocks);

// Whether a task that this moved is to be moved on in the same turn.
bool goes_on(const Move* move, const Counts& counts, bool blocks);

}  // namespace pawl::dag
