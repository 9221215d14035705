// May throw and may ereport. A turn of the orchestrator: it records reported results, counts down the steps that depend
// on them, enqueues those that are ready, and moves their tasks; each of these is one statement over many tasks.
#pragma once

#include "fire/target.hpp"
#include "guard/intent.hpp"

namespace pawl::dag {

struct Task;

// The tasks of a turn, in the order of their keys.
struct Tasks {
    Task* items;
    int n;

    Task* find(const pg_uuid_t& task) const;  // null: it is not one of them
};

// What a turn did.
struct Done {
    int64 tasks;
    int64 reported;
    int64 enqueued;
    int64 finished;
};

// Takes one turn over at most `batch` tasks with the rights of the caller, for the orchestrators' processor. Tasks and
// steps that other sessions have locked are skipped. `intent` must be the current one; `tasks` gets the tasks, which
// are valid as long as the function runs.
Done take_turn(int batch, Intent& intent, Tasks& tasks);

// Whether the turn has enqueued steps of the task.
bool has_enqueued(const Tasks& tasks, const pg_uuid_t& task);

}  // namespace pawl::dag
