// May throw and may ereport. See turn.hpp. What ereports owns nothing, and runs inside pg::call.
#include "packs/dag/turn.hpp"

#include "fire/plans.hpp"
#include "packs/dag/next_event.hpp"
#include "packs/dag/statements.hpp"
#include "pg/spi.hpp"

namespace pawl::dag {

struct Task {
    pg_uuid_t id;
    ItemPointerData place;  // of its row, when it was locked
    std::string_view state;
    bool blocks;    // its failure_policy is block
    bool evaluate;  // something happened since it was looked at
    bool partial;   // steps of it were cancelled
    Counts counts;  // as the turn leaves them
    // What the turn does to its steps. Children: steps that waited for finished ones; enqueued also counts ready
    // children.
    int recorded;
    int waiting;
    int failed;
    int satisfied;
    int children_ready;
    int enqueued;
    const Move* moves[3];
    int nmoves;
};

namespace {

constexpr const char* engine = "019b0000-0000-7000-8000-00000000da90";  // pawl_dag.engine()
constexpr std::string_view in_process = "steps_in_process";

// What a turn works with. Ereports; runs inside SPI.
class Turn {
public:
    Turn(const Target& tasks_table, const Target& steps_table, Intent& intent, Tasks& tasks)
        : tasks_table_(tasks_table), steps_table_(steps_table), intent_(intent), tasks_(tasks) {}

    void pick(int batch) {
        tasks_.items = static_cast<Task*>(palloc(sizeof(Task) * 2 * batch));
        add_picked(pick_reported, batch);
        const int reported = tasks_.n;
        if (reported < batch) add_picked(pick_changed, batch - reported);
        if (tasks_.n > 1) qsort(tasks_.items, tasks_.n, sizeof(Task), by_id);
        // a task that has reports can be evaluated, too
        int kept = 0;
        for (int i = 0; i < tasks_.n; ++i)
            if (i == 0 || by_id(&tasks_.items[i], &tasks_.items[kept - 1]) != 0) tasks_.items[kept++] = tasks_.items[i];
        tasks_.n = kept;
    }

    int64 record() {
        Parameters parameters = {};
        parameters.add(UUIDARRAYOID, ids([](const Task&) { return true; }));
        by(steps_table_);
        const int n = static_cast<int>(run(record_results, parameters));
        SPITupleTable* results = SPI_tuptable;
        ended_ = static_cast<Ended*>(palloc(sizeof(Ended) * Max(n, 1)));
        for (int i = 0; i < n; ++i) {
            Task& task = task_of(results, i);
            const std::string_view kind = text_of(results, i, 3);
            task.recorded++;
            task.waiting += kind == "waiting";
            task.failed += kind == "failed";
            task.satisfied += kind == "satisfied";
            if (kind == "satisfied") ended_[nended_++] = {&task, *DatumGetUUIDP(pg::value_of(results, i, 2))};
        }
        for (int i = 0; i < tasks_.n; ++i) {
            Task& task = tasks_.items[i];
            task.counts.in_flight -= task.recorded;
            task.counts.waiting += task.waiting;
            task.counts.failed += task.failed;
            task.counts.ended += task.satisfied;
        }
        return n;
    }

    // Enqueues children that become ready in the same statement, if their task goes on: no failed step blocks it.
    void count_children() {
        if (nended_ == 0) return;
        by(steps_table_);
        const int n = nended_ == 1 ? count_children_of_one() : count_children_of_many();
        SPITupleTable* children = SPI_tuptable;
        for (int i = 0; i < n; ++i) {
            Task& task = task_of(children, i);
            const bool enqueued = DatumGetBool(pg::value_of(children, i, 2));
            task.enqueued += enqueued;
            task.children_ready += enqueued || DatumGetBool(pg::value_of(children, i, 3));
        }
    }

    // Decides where each task goes.
    void decide() {
        for (int i = 0; i < tasks_.n; ++i) {
            Task& task = tasks_.items[i];
            task.counts.ready += task.children_ready;
            const Move* move = next_move(task.state, task.counts, task.blocks);
            if (move != nullptr) task.moves[task.nmoves++] = move;
            if (goes_on(move)) {
                move = next_move(move->to, task.counts, task.blocks);
                if (move != nullptr) task.moves[task.nmoves++] = move;
            }
            if (final_state(task) == "enqueuing_steps") task.moves[task.nmoves++] = &steps_enqueued;
        }
    }

    // Enqueues what else is ready of the tasks that enqueue. Returns how many steps the turn has enqueued.
    int64 enqueue() {
        auto has_more = [](const Task& task) { return enqueues(task) && task.counts.ready > task.enqueued; };
        Parameters parameters = {};
        parameters.add(UUIDARRAYOID, ids(has_more));
        if (ARR_NDIM(DatumGetArrayTypeP(parameters.values[0])) > 0) {
            by(steps_table_);
            const int n = static_cast<int>(run(enqueue_ready, parameters));
            SPITupleTable* enqueued = SPI_tuptable;
            for (int i = 0; i < n; ++i) task_of(enqueued, i).enqueued++;
        }
        int64 all = 0;
        for (int i = 0; i < tasks_.n; ++i) all += tasks_.items[i].enqueued;
        return all;
    }

    // Moves the tasks, each in one row version. The last transition of a task that completes without its cancelled
    // steps has metadata of its own, and triggers read from which state a task is blocked: these take a version more.
    void move() {
        write([](const Task& task) { return task.nmoves == 0 && (task.evaluate || task.recorded > 0); }, nullptr, 0, 0);
        auto* done = static_cast<bool*>(palloc0(sizeof(bool) * Max(tasks_.n, 1)));
        for (int i = 0; i < tasks_.n; ++i) {
            const Task& one = tasks_.items[i];
            if (done[i] || one.nmoves == 0) continue;
            auto same = [&](const Task& task) { return is_moved_as(task, one); };
            for (int k = i; k < tasks_.n; ++k) done[k] |= same(tasks_.items[k]);
            const bool apart = one.nmoves > 1 && (ends_partially(one) || final_state(one) == "blocked_by_failures");
            if (apart) write(same, &one, 0, one.nmoves - 1);
            say_partial(ends_partially(one));
            write(same, &one, apart ? one.nmoves - 1 : 0, one.nmoves);
            say_partial(false);
        }
    }

    int64 finished() const {
        int64 n = 0;
        for (int i = 0; i < tasks_.n; ++i) n += final_state(tasks_.items[i]) == "complete";
        return n;
    }

private:
    struct Ended {
        Task* task;
        pg_uuid_t step;
    };

    int count_children_of_one() {
        Parameters parameters = {};
        parameters.add(UUIDOID, UUIDPGetDatum(&ended_[0].task->id));
        parameters.add(UUIDOID, UUIDPGetDatum(&ended_[0].step));
        parameters.add(BOOLOID, BoolGetDatum(can_enqueue(*ended_[0].task)));
        return static_cast<int>(run(count_down_one, parameters));
    }

    int count_children_of_many() {
        auto* parents = static_cast<Datum*>(palloc(sizeof(Datum) * nended_ * 3));
        Datum* steps = parents + nended_;
        Datum* goes_on = steps + nended_;
        for (int i = 0; i < nended_; ++i) {
            parents[i] = UUIDPGetDatum(&ended_[i].task->id);
            steps[i] = UUIDPGetDatum(&ended_[i].step);
            goes_on[i] = BoolGetDatum(can_enqueue(*ended_[i].task));
        }
        Parameters parameters = {};
        parameters.add(UUIDARRAYOID, pg::array_of(parents, nended_, UUIDOID));
        parameters.add(UUIDARRAYOID, pg::array_of(steps, nended_, UUIDOID));
        parameters.add(BOOLARRAYOID, pg::array_of(goes_on, nended_, BOOLOID));
        return static_cast<int>(run(count_down, parameters));
    }

    static int by_id(const void* one, const void* other) {
        return memcmp(&static_cast<const Task*>(one)->id, &static_cast<const Task*>(other)->id, UUID_LEN);
    }

    static std::string_view final_state(const Task& task) {
        return task.nmoves == 0 ? task.state : task.moves[task.nmoves - 1]->to;
    }

    static bool enqueues(const Task& task) { return task.nmoves > 0 && task.moves[task.nmoves - 1] == &steps_enqueued; }

    static bool can_enqueue(const Task& task) {
        return (task.state == in_process || task.state == "waiting_for_dependencies" ||
                task.state == "waiting_for_retry" || task.state == "evaluating_results") &&
               (task.counts.failed == 0 || !task.blocks);
    }

    static bool ends_partially(const Task& task) {
        return task.partial && task.nmoves > 0 && final_state(task) == "complete";
    }

    static bool is_moved_as(const Task& task, const Task& other) {
        if (task.nmoves != other.nmoves || ends_partially(task) != ends_partially(other)) return false;
        for (int i = 0; i < task.nmoves; ++i)
            if (task.moves[i] != other.moves[i]) return false;
        return true;
    }

    static std::string_view text_of(SPITupleTable* table, int row, int column) {
        return pg::view(DatumGetTextPP(pg::value_of(table, row, column)));
    }

    // The keys of some tasks.
    template <typename Chosen>
    Datum ids(Chosen chosen) const {
        auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * Max(tasks_.n, 1)));
        int n = 0;
        for (int i = 0; i < tasks_.n; ++i)
            if (chosen(tasks_.items[i])) values[n++] = UUIDPGetDatum(&tasks_.items[i].id);
        return pg::array_of(values, n, UUIDOID);
    }

    Task& task_of(SPITupleTable* table, int row) const {
        Task* task = tasks_.find(*DatumGetUUIDP(pg::value_of(table, row, 1)));
        if (task == nullptr) elog(ERROR, "a step of a task that is not in the turn was written");
        return *task;
    }

    // What the next statement changes.
    void by(const Target& table) {
        intent_.root = table.binding->root;
        intent_.column = NameStr(table.binding->column);
        intent_.event = nullptr;
        intent_.events = nullptr;
    }

    uint64 run(const char* statement, const Parameters& parameters) {
        return run_planned(*tasks_table_.binding, statement, parameters, Order::sorted);
    }

    void add_picked(const char* statement, int most) {
        Parameters parameters = {};
        parameters.add(INT4OID, Int32GetDatum(most));
        const int n = static_cast<int>(run(statement, parameters));
        SPITupleTable* picked = SPI_tuptable;
        for (int i = 0; i < n; ++i) {
            auto number = [&](int column) { return DatumGetInt32(pg::value_of(picked, i, column)); };
            Task& task = tasks_.items[tasks_.n++];
            task = {};
            task.id = *DatumGetUUIDP(pg::value_of(picked, i, 1));
            task.place = *reinterpret_cast<ItemPointer>(DatumGetPointer(pg::value_of(picked, i, 2)));
            task.state = text_of(picked, i, 3);
            task.blocks = DatumGetBool(pg::value_of(picked, i, 4));
            task.evaluate = DatumGetBool(pg::value_of(picked, i, 5));
            task.partial = DatumGetBool(pg::value_of(picked, i, 6));
            task.counts = {number(7), number(8), number(9), number(10), number(11), number(12)};
        }
    }

    // Adds a column of the chosen tasks: an array, or the value of a single one.
    template <typename Chosen, typename Value>
    void add_column(Parameters& parameters, Oid type, int n, Chosen chosen, Value value) const {
        auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * n));
        int filled = 0;
        for (int i = 0; i < tasks_.n; ++i)
            if (chosen(tasks_.items[i])) values[filled++] = value(tasks_.items[i]);
        if (n == 1)
            parameters.add(type, values[0]);
        else
            parameters.add(get_array_type(type), pg::array_of(values, n, type));
    }

    // The counters of the chosen tasks, of which there are n; none of them, if they are `counted`.
    template <typename Chosen>
    Parameters counters(int n, Chosen chosen, bool counted) const {
        Parameters parameters = {};
        add_column(parameters, UUIDOID, n, chosen, [](const Task& task) { return UUIDPGetDatum(&task.id); });
        add_column(parameters, TIDOID, n, chosen,
                   [](const Task& task) { return PointerGetDatum(const_cast<ItemPointer>(&task.place)); });
        auto number = [&](auto value) {
            add_column(parameters, INT4OID, n, chosen,
                       [&](const Task& task) { return Int32GetDatum(counted ? 0 : value(task)); });
        };
        number([](const Task& task) { return -task.children_ready; });
        number([](const Task& task) { return task.children_ready - task.enqueued; });
        number([](const Task& task) { return task.enqueued - task.recorded; });
        number([](const Task& task) { return task.waiting; });
        number([](const Task& task) { return task.failed; });
        number([](const Task& task) { return task.satisfied; });
        return parameters;
    }

    // Writes the counters of the chosen tasks, if these are not written yet, and some of the transitions of `as`.
    template <typename Chosen>
    void write(Chosen chosen, const Task* as, int first, int end) {
        int n = 0;
        for (int i = 0; i < tasks_.n; ++i) n += chosen(tasks_.items[i]);
        if (n == 0) return;
        Parameters parameters = counters(n, chosen, first > 0);
        by(tasks_table_);
        if (as == nullptr) {
            run(n == 1 ? count_task : count_tasks, parameters);
            return;
        }
        EventList events = {};
        for (int i = first; i < end; ++i) events.events[events.n++] = cstring_to_text(as->moves[i]->event);
        if (events.n > 1)
            intent_.events = &events;
        else
            intent_.event = const_cast<text*>(events.events[0]);
        const std::string_view to = as->moves[end - 1]->to;
        parameters.add(TEXTOID, PointerGetDatum(pg::make_text(to)));
        parameters.add(BOOLOID, BoolGetDatum(to == in_process || to == "evaluating_results" || to == "initializing"));
        run(n == 1 ? move_task : move_tasks, parameters);
        intent_.events = nullptr;
    }

    // The metadata of the next state changes: that of the session, with {"partial": true}.
    void say_partial(bool partial) {
        intent_.with_metadata = partial;
        intent_.metadata = nullptr;
        if (!partial) return;
        auto json = [](const char* text) { return DirectFunctionCall1(jsonb_in, CStringGetDatum(text)); };
        const char* said = GetConfigOption("pawl.metadata", true, false);
        intent_.metadata = DatumGetJsonbP(DirectFunctionCall2(
            jsonb_concat, json(said == nullptr || *said == '\0' ? "{}" : said), json("{\"partial\": true}")));
    }

    const Target& tasks_table_;
    const Target& steps_table_;
    Intent& intent_;
    Tasks& tasks_;
    Ended* ended_ = nullptr;
    int nended_ = 0;
};

Target open_table(const char* name) {
    const Oid relation = pg::call([&] { return get_relname_relid(name, get_namespace_oid("pawl_dag", false)); });
    return open_target(relation, "state");
}

}  // namespace

Task* Tasks::find(const pg_uuid_t& task) const {
    for (int low = 0, high = n; low < high;) {
        const int middle = (low + high) / 2;
        const int order = memcmp(&items[middle].id, &task, UUID_LEN);
        if (order == 0) return &items[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return nullptr;
}

bool has_enqueued(const Tasks& tasks, const pg_uuid_t& task) {
    const Task* found = tasks.find(task);
    return found != nullptr && found->enqueued > 0;
}

Done take_turn(int batch, Intent& intent, Tasks& tasks) {
    const Target tasks_table = open_table("tasks");
    const Target steps_table = open_table("steps");
    return pg::call([&] {
        Done done = {};
        SPI_connect();
        intent.processor = cstring_to_text(engine);
        intent.any_token = true;
        Turn turn(tasks_table, steps_table, intent, tasks);
        turn.pick(batch);
        done.tasks = tasks.n;
        if (tasks.n > 0) {
            done.reported = turn.record();
            turn.count_children();
            turn.decide();
            done.enqueued = turn.enqueue();
            turn.move();
            done.finished = turn.finished();
        }
        SPI_finish();
        close_target(steps_table);
        close_target(tasks_table);
        tasks = {};
        return done;
    });
}

}  // namespace pawl::dag
