// May throw and may ereport. A turn of the orchestrator: it records reported results, counts down the steps that depend
// on them, enqueues those that are ready, and moves their tasks; each of these is one statement over many tasks.
#pragma once

#include "fire/plans.hpp"
#include "fire/target.hpp"
#include "guard/intent.hpp"
#include "packs/dag/next_event.hpp"

namespace pawl::dag {

struct Task {
    pg_uuid_t id;
    ItemPointerData place;  // of its row, when it was locked
    std::string_view state;
    bool blocks;       // its failure_policy is block
    bool evaluate;     // something happened since it was looked at
    bool partial;      // steps of it were cancelled
    bool has_results;  // it may have results that were reported and not read
    bool reported;     // it was picked because it has some
    Counts counts;     // as the turn leaves them
    // What the turn does to its steps. Children: steps that waited for finished ones; enqueued also counts ready
    // children.
    int recorded;
    int waiting;
    int failed;
    int satisfied;
    int children_ready;
    int enqueued;
    const Move* moves[most_moves];
    int nmoves;
    bool locked;    // steps of it that are ready could not be enqueued: other sessions have locked them
    HeapTuple own;  // what pick_beside read of it; null: another statement did

    std::string_view final_state() const { return nmoves == 0 ? state : moves[nmoves - 1]->to; }
    bool enqueues() const { return nmoves > 0 && moves[nmoves - 1] == &steps_enqueued; }
};

inline constexpr std::string_view in_process = "steps_in_process";

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

// Which children a turn starts for a worker, in the row version in which it enqueues them: those that precede steps
// which wait already, up to a number. Those with a timeout are claimed as others are.
struct Starting {
    text* worker;
    text* queue;
    int most;
    const Interval* lease;  // null: that of the binding
    // Of the steps that wait, in their order: negative ranks, the next greater numbers, and tasks.
    Datum ranks;
    Datum above_ranks;
    Datum tasks;
    bool is_open;         // the queue is known not to be paused
    SPITupleTable* rows;  // of children: what count_children read
    int* started;         // the numbers of those rows that were started
    int nstarted;
};
// The columns of these rows from this one on: those of ClaimedStep, total_parents and rank.
inline constexpr int first_started_column = 5;

inline constexpr const char* engine = "019b0000-0000-7000-8000-00000000da90";  // pawl_dag.engine()

// The parts of a turn, in their order. Each ereports and runs inside SPI, with the rights of the caller. Tasks and
// steps that other sessions have locked are skipped. `intent` must be the current one; `tasks` gets the tasks.
class Turn {
public:
    Turn(const Target& tasks_table, const Target& steps_table, Intent& intent, Tasks& tasks)
        : tasks_table_(tasks_table), steps_table_(steps_table), intent_(intent), tasks_(tasks) {}

    // Picks at most `batch` tasks; `own`, an array of nown keys, are picked in any case.
    void pick(int batch);
    void pick_beside(Datum own, int nown, int batch);

    // Reads results. A step that is complete already is noted instead.
    int64 record();
    void note_completed(const pg_uuid_t& task, const pg_uuid_t& step);
    void count_results();

    // Enqueues children that become ready in the same statement, if their task goes on: no failed step blocks it.
    void count_children(Starting* starting);

    void decide();    // where each task goes
    int64 enqueue();  // what else is ready of the tasks that enqueue; returns how many steps the turn has enqueued
    void move();      // the tasks
    void set_aside_locked();
    int64 finished() const;

    bool has_children_to_count() const { return nended_ > 0; }
    // The step that has ended, if it is the only one.
    const pg_uuid_t* only_ended() const { return nended_ == 1 ? &ended_[0].step : nullptr; }

    // What a worker is told of a task that pick_beside has read: the columns of pawl_dag.tasks from context on.
    Datum told_of(const Task& task, int n, bool* null) const {
        return SPI_getbinval(task.own, own_columns_, first_told_column + n, null);
    }

    bool troubles_are_over() const { return troubles_are_over_; }  // some, if anything was picked beside own tasks

    // Runs a statement on steps, with the intent for them.
    void by_steps() { by(steps_table_); }
    uint64 run(const char* statement, const Parameters& parameters) {
        return run_planned(*tasks_table_.binding, statement, parameters, Order::sorted);
    }

private:
    struct Ended {
        Task* task;
        pg_uuid_t step;
    };

    void by(const Target& table);
    void sort_picked();
    void add_picked(const char* statement, const Parameters& parameters, bool reported);
    void add_ended(Task& task, const pg_uuid_t& step);
    void start_by(Starting& starting, EventList* events, const text** processors, Parameters& parameters);
    void end_start();
    int run_count_down(Starting* starting);
    Task& task_of(SPITupleTable* table, int row) const;
    template <typename Chosen>
    Datum ids(Chosen chosen) const;
    void leave_locked(Task& task) const;
    template <typename Chosen, typename Value>
    void add_column(Parameters& parameters, Oid type, int n, Chosen chosen, Value value) const;
    template <typename Chosen>
    Parameters counters(int n, Chosen chosen, bool counted) const;
    template <typename Chosen>
    void write(Chosen chosen, const Task* as, int first, int end);
    void say_partial(bool partial);

    const Target& tasks_table_;
    const Target& steps_table_;
    Intent& intent_;
    Tasks& tasks_;
    Ended* ended_ = nullptr;
    int nended_ = 0;
    int room_ = 0;
    TupleDesc own_columns_ = nullptr;
    static constexpr int first_told_column = 15;
    bool troubles_are_over_ = false;
};

Target open_table(const char* name);

// Takes one turn over at most `batch` tasks with the rights of the caller, for the orchestrators' processor. Tasks and
// steps that other sessions have locked are skipped. `intent` must be the current one; `tasks` gets the tasks, which
// are valid as long as the function runs.
Done take_turn(int batch, Intent& intent, Tasks& tasks);

// Whether the turn has enqueued steps of the task.
bool has_enqueued(const Tasks& tasks, const pg_uuid_t& task);

}  // namespace pawl::dag
