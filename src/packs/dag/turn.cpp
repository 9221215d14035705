// May throw and may ereport. See turn.hpp. What ereports owns nothing, and runs inside pg::call.
#include "packs/dag/turn.hpp"

#include "packs/dag/statements.hpp"
#include "pg/find_by_id.hpp"
#include "pg/index_look.hpp"
#include "pg/spi.hpp"

namespace pawl::dag {

namespace {

int by_id(const void* one, const void* other) {
    return memcmp(&static_cast<const Task*>(one)->id, &static_cast<const Task*>(other)->id, UUID_LEN);
}

// The same task was picked twice.
void join(Task& task, const Task& other) {
    task.has_results |= other.has_results;
    task.reported |= other.reported;
}

bool can_enqueue(const Task& task) {
    return (task.state == in_process || task.state == "waiting_for_dependencies" || task.state == "waiting_for_retry" ||
            task.state == "evaluating_results") &&
           (task.counts.failed == 0 || !task.blocks);
}

std::string_view text_of(SPITupleTable* table, int row, int column) {
    return pg::view(DatumGetTextPP(pg::value_of(table, row, column)));
}

bool flag_of(SPITupleTable* table, int row, int column) {
    return DatumGetBool(pg::value_of(table, row, column));
}

}  // namespace

void Turn::pick(int batch) {
    tasks_.items = static_cast<Task*>(palloc(sizeof(Task) * 2 * batch));
    Parameters parameters = {};
    parameters.add(INT4OID, Int32GetDatum(batch));
    add_picked(pick_reported, parameters, true);
    parameters.values[0] = Int32GetDatum(batch - tasks_.n);
    if (tasks_.n < batch) add_picked(pick_changed, parameters, false);
    sort_picked();
}

void Turn::pick_beside(Datum own, int nown, int batch) {
    tasks_.items = static_cast<Task*>(palloc(sizeof(Task) * (nown + 2 * batch)));
    Parameters parameters = {};
    // mostly no other results wait, and no task is in trouble: to see that takes less than a statement that looks
    const bool alone = pg::is_empty(get_relname_relid("troubles", RelationGetNamespace(steps_table_.relation))) &&
                       pg::look_into(steps_table_.relation, "steps_results") == pg::Seen::none;
    if (!alone) parameters.add(INT4OID, Int32GetDatum(batch));
    parameters.add(UUIDARRAYOID, own);
    if (!alone) parameters.add(INT4OID, Int32GetDatum(nown));
    if (!alone || nown > 0) add_picked(alone ? pick_own : pick_with_own, parameters, !alone);
    if (tasks_.n > 0) troubles_are_over_ = flag_of(SPI_tuptable, 0, 14);
    if (tasks_.n > 0) own_columns_ = SPI_tuptable->tupdesc;
    for (int i = 0; i < tasks_.n; ++i) tasks_.items[i].own = SPI_tuptable->vals[i];
    Parameters changed = {};
    changed.add(INT4OID, Int32GetDatum(batch - tasks_.n));
    if (tasks_.n < batch) add_picked(pick_changed, changed, false);
    sort_picked();
}

// A task that has reports can be evaluated, too.
void Turn::sort_picked() {
    if (tasks_.n > 1) qsort(tasks_.items, tasks_.n, sizeof(Task), by_id);
    int kept = 0;
    for (int i = 0; i < tasks_.n; ++i) {
        if (i == 0 || by_id(&tasks_.items[i], &tasks_.items[kept - 1]) != 0)
            tasks_.items[kept++] = tasks_.items[i];
        else
            join(tasks_.items[kept - 1], tasks_.items[i]);
    }
    tasks_.n = kept;
}

int64 Turn::record() {
    Parameters parameters = {};
    parameters.add(UUIDARRAYOID, ids([](const Task& task) { return task.has_results; }));
    if (ARR_NDIM(DatumGetArrayTypeP(parameters.values[0])) == 0) return 0;
    by(steps_table_);
    const int n = static_cast<int>(run(record_results, parameters));
    SPITupleTable* results = SPI_tuptable;
    for (int i = 0; i < n; ++i) {
        Task& task = task_of(results, i);
        const std::string_view kind = text_of(results, i, 3);
        task.recorded++;
        task.waiting += kind == "waiting";
        task.failed += kind == "failed";
        if (kind == "satisfied") add_ended(task, *DatumGetUUIDP(pg::value_of(results, i, 2)));
    }
    return n;
}

void Turn::note_completed(const pg_uuid_t& task, const pg_uuid_t& step) {
    Task* found = tasks_.find(task);
    if (found == nullptr) elog(ERROR, "a step of a task that is not in the turn was completed");
    found->recorded++;
    add_ended(*found, step);
}

void Turn::add_ended(Task& task, const pg_uuid_t& step) {
    if (nended_ == room_) {
        const int room = Max(16, 2 * room_);
        auto* ended = static_cast<Ended*>(MemoryContextAllocHuge(CurrentMemoryContext, sizeof(Ended) * room));
        if (nended_ > 0) memcpy(ended, ended_, sizeof(Ended) * nended_);
        ended_ = ended;
        room_ = room;
    }
    task.satisfied++;
    ended_[nended_++] = {&task, step};
}

void Turn::count_results() {
    for (int i = 0; i < tasks_.n; ++i) {
        Task& task = tasks_.items[i];
        task.counts.in_flight -= task.recorded;
        task.counts.waiting += task.waiting;
        task.counts.failed += task.failed;
        task.counts.ended += task.satisfied;
    }
}

void Turn::count_children(Starting* starting) {
    if (nended_ == 0) return;
    const int n = run_count_down(starting);
    SPITupleTable* children = SPI_tuptable;
    if (starting != nullptr) {
        starting->rows = children;
        starting->started = static_cast<int*>(palloc(sizeof(int) * Max(n, 1)));
    }
    for (int i = 0; i < n; ++i) {
        Task& task = task_of(children, i);
        const bool started = starting != nullptr && flag_of(children, i, 4);
        const bool enqueued = started || flag_of(children, i, 2);
        task.enqueued += enqueued;
        task.children_ready += enqueued || flag_of(children, i, 3);
        if (started) starting->started[starting->nstarted++] = i;
    }
}

int Turn::run_count_down(Starting* starting) {
    Parameters parameters = {};
    auto* tasks = static_cast<Datum*>(palloc(sizeof(Datum) * nended_ * 3));
    Datum* steps = tasks + nended_;
    Datum* goes_on = steps + nended_;
    for (int i = 0; i < nended_; ++i) {
        tasks[i] = UUIDPGetDatum(&ended_[i].task->id);
        steps[i] = UUIDPGetDatum(&ended_[i].step);
        goes_on[i] = BoolGetDatum(can_enqueue(*ended_[i].task));
    }
    parameters.add_column(UUIDOID, tasks, nended_);
    parameters.add_column(UUIDOID, steps, nended_);
    parameters.add_column(BOOLOID, goes_on, nended_);
    by(steps_table_);
    if (starting == nullptr) return static_cast<int>(run(nended_ == 1 ? count_down_one : count_down, parameters));
    EventList events = {};
    const text* processors[2];
    start_by(*starting, &events, processors, parameters);
    const int n = static_cast<int>(run(nended_ == 1 ? start_one : start_many, parameters));
    end_start();
    return n;
}

// The engine enqueues, and the worker starts.
void Turn::start_by(Starting& starting, EventList* events, const text** processors, Parameters& parameters) {
    parameters.add(TEXTOID, PointerGetDatum(starting.queue));
    parameters.add(INT4OID, Int32GetDatum(starting.most));
    parameters.add(FLOAT8ARRAYOID, starting.ranks);
    parameters.add(FLOAT8ARRAYOID, starting.above_ranks);
    parameters.add(UUIDARRAYOID, starting.tasks);
    parameters.add(BOOLOID, BoolGetDatum(starting.is_open));
    *events = {2, {cstring_to_text("Enqueue"), cstring_to_text("Start")}};
    processors[0] = intent_.processor;
    processors[1] = starting.worker;
    intent_.events = events;
    intent_.events_to = cstring_to_text("in_progress");
    intent_.processors = processors;
    intent_.lease = starting.lease;
}

void Turn::end_start() {
    intent_.events = nullptr;
    intent_.events_to = nullptr;
    intent_.processors = nullptr;
    intent_.lease = nullptr;
}

// The keys of some tasks.
template <typename Chosen>
Datum Turn::ids(Chosen chosen) const {
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * Max(tasks_.n, 1)));
    int n = 0;
    for (int i = 0; i < tasks_.n; ++i)
        if (chosen(tasks_.items[i])) values[n++] = UUIDPGetDatum(&tasks_.items[i].id);
    return pg::array_of(values, n, UUIDOID);
}

// What the next statement changes.
void Turn::by(const Target& table) {
    intent_.root = table.binding->root;
    intent_.column = NameStr(table.binding->column);
    intent_.event = nullptr;
    intent_.events = nullptr;
}

Task& Turn::task_of(SPITupleTable* table, int row) const {
    Task* task = tasks_.find(*DatumGetUUIDP(pg::value_of(table, row, 1)));
    if (task == nullptr) elog(ERROR, "a step of a task that is not in the turn was written");
    return *task;
}

void Turn::add_picked(const char* statement, const Parameters& parameters, bool reported) {
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
        task.has_results = flag_of(picked, i, 13);
        task.reported = reported && task.has_results;
        task.counts = {number(7), number(8), number(9), number(10), number(11), number(12)};
    }
}

void Turn::decide() {
    for (int i = 0; i < tasks_.n; ++i) {
        Task& task = tasks_.items[i];
        task.counts.ready += task.children_ready;
        const Move* move = nullptr;
        do {
            move = next_move(task.final_state(), task.counts, task.blocks);
            if (move != nullptr) task.moves[task.nmoves++] = move;
        } while (task.nmoves < most_moves && move != nullptr && goes_on(move, task.counts, task.blocks));
    }
}

int64 Turn::enqueue() {
    auto has_more = [](const Task& task) { return task.enqueues() && task.counts.ready > task.enqueued; };
    Parameters parameters = {};
    parameters.add(UUIDARRAYOID, ids(has_more));
    if (ARR_NDIM(DatumGetArrayTypeP(parameters.values[0])) > 0) {
        by(steps_table_);
        const int n = static_cast<int>(run(enqueue_ready, parameters));
        SPITupleTable* enqueued = SPI_tuptable;
        for (int i = 0; i < n; ++i) task_of(enqueued, i).enqueued++;
        for (int i = 0; i < tasks_.n; ++i)
            if (has_more(tasks_.items[i])) leave_locked(tasks_.items[i]);
    }
    int64 all = 0;
    for (int i = 0; i < tasks_.n; ++i) all += tasks_.items[i].enqueued;
    return all;
}

// Steps that were skipped are enqueued by a later turn. If that is all there is to do, the task stays in its state.
void Turn::leave_locked(Task& task) const {
    task.locked = true;
    if (task.enqueued == 0) task.nmoves = task.state == "pending" ? 1 : 0;
}

// Steps that other sessions have locked keep their tasks waiting: these are tried again after a while, because a lock
// can last, and until then they hide no other task.
void Turn::set_aside_locked() {
    auto seems_unread = [](const Task& task) { return task.reported && task.recorded == 0 && task.nmoves == 0; };
    bool any = false;
    for (int i = 0; i < tasks_.n; ++i) any |= tasks_.items[i].locked || seems_unread(tasks_.items[i]);
    if (!any) return;
    Parameters parameters = {};
    parameters.add(UUIDARRAYOID, ids([](const Task& task) { return task.locked; }));
    parameters.add(UUIDARRAYOID, ids(seems_unread));
    run(wait_for_locks, parameters);
}

int64 Turn::finished() const {
    int64 n = 0;
    for (int i = 0; i < tasks_.n; ++i) n += tasks_.items[i].final_state() == "complete";
    return n;
}

Target open_table(const char* name) {
    const Oid relation = pg::call([&] { return get_relname_relid(name, get_namespace_oid("pawl_dag", false)); });
    return open_target(relation, "state");
}

Task* Tasks::find(const pg_uuid_t& task) const {
    return find_by_id(items, n, task);
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
            turn.count_results();
            turn.count_children(nullptr);
            turn.decide();
            done.enqueued = turn.enqueue();
            turn.move();
            turn.set_aside_locked();
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
