// May ereport; owns nothing. The part of a turn that writes tasks. See turn.hpp.
#include "packs/dag/statements.hpp"
#include "packs/dag/turn.hpp"
#include "pg/spi.hpp"

namespace pawl::dag {

namespace {

bool ends_partially(const Task& task) {
    return task.partial && task.nmoves > 0 && task.final_state() == "complete";
}

bool is_moved_as(const Task& task, const Task& other) {
    if (task.nmoves != other.nmoves || ends_partially(task) != ends_partially(other)) return false;
    for (int i = 0; i < task.nmoves; ++i)
        if (task.moves[i] != other.moves[i]) return false;
    return true;
}

}  // namespace

// Adds a column of the chosen tasks: an array, or the value of a single one.
template <typename Chosen, typename Value>
void Turn::add_column(Parameters& parameters, Oid type, int n, Chosen chosen, Value value) const {
    auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * n));
    int filled = 0;
    for (int i = 0; i < tasks_.n; ++i)
        if (chosen(tasks_.items[i])) values[filled++] = value(tasks_.items[i]);
    parameters.add_column(type, values, n);
}

// The counters of the chosen tasks, of which there are n; none of them, if they are `counted`.
template <typename Chosen>
Parameters Turn::counters(int n, Chosen chosen, bool counted) const {
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
    add_column(parameters, BOOLOID, n, chosen, [](const Task& task) { return BoolGetDatum(task.locked); });
    return parameters;
}

// Writes the counters of the chosen tasks, if these are not written yet, and some of the transitions of `as`.
template <typename Chosen>
void Turn::write(Chosen chosen, const Task* as, int first, int end) {
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
void Turn::say_partial(bool partial) {
    intent_.with_metadata = partial;
    intent_.metadata = nullptr;
    if (!partial) return;
    auto json = [](const char* text) { return DirectFunctionCall1(jsonb_in, CStringGetDatum(text)); };
    const char* said = GetConfigOption("pawl.metadata", true, false);
    intent_.metadata = DatumGetJsonbP(DirectFunctionCall2(
        jsonb_concat, json(said == nullptr || *said == '\0' ? "{}" : said), json("{\"partial\": true}")));
}

// Moves the tasks, each in one row version. The last transition of a task that completes without its cancelled
// steps has metadata of its own, and triggers read from which state a task is blocked: these take a version more.
void Turn::move() {
    auto only_counted = [](const Task& task) {
        return task.nmoves == 0 && (task.evaluate != task.locked || task.recorded > 0);
    };
    write(only_counted, nullptr, 0, 0);
    auto* done = static_cast<bool*>(palloc0(sizeof(bool) * Max(tasks_.n, 1)));
    for (int i = 0; i < tasks_.n; ++i) {
        const Task& one = tasks_.items[i];
        if (done[i] || one.nmoves == 0) continue;
        auto same = [&](const Task& task) { return is_moved_as(task, one); };
        for (int k = i; k < tasks_.n; ++k) done[k] |= same(tasks_.items[k]);
        const bool apart = one.nmoves > 1 && (ends_partially(one) || one.final_state() == "blocked_by_failures");
        if (apart) write(same, &one, 0, one.nmoves - 1);
        say_partial(ends_partially(one));
        write(same, &one, apart ? one.nmoves - 1 : 0, one.nmoves);
        say_partial(false);
    }
}

}  // namespace pawl::dag
