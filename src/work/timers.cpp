// May throw and may ereport: pawl.fire_due, which fires the timers whose due time has come.
#include "fire/lock_order.hpp"
#include "work/duty.hpp"
#include "work/scan_position.hpp"
#include "work/trial.hpp"

namespace pawl {

namespace {

// Rows whose due time has come, the earliest first: from the head of the index after the first `skip`, or from one of
// the ranges behind the scan position.
Batch pick_range(const Target& target, const ScanPosition* behind, int level, int most, int skip = 0) {
    const ManagedColumn& due = target.binding->managed->due;
    StringInfoData clauses;
    initStringInfo(&clauses);
    Parameters parameters = {};
    parameters.add(TIMESTAMPTZOID, TimestampTzGetDatum(GetCurrentTimestamp()));
    parameters.add(INT8OID, Int64GetDatum(most));
    appendStringInfo(&clauses, "%s WHERE %s OPERATOR(pg_catalog.<=) $1", lock_first(*target.binding), column_name(due));
    if (behind != nullptr) append_behind(&clauses, *target.binding, *behind, level, parameters);
    appendStringInfo(&clauses, " ORDER BY %s, %s LIMIT $2", column_name(due), order_by_key(*target.binding));
    if (skip > 0) {
        parameters.add(INT8OID, Int64GetDatum(skip));
        appendStringInfo(&clauses, " OFFSET $%d", parameters.n);
    }
    appendStringInfo(&clauses, " FOR NO KEY UPDATE OF %s SKIP LOCKED", row_alias);
    return pick_rows(target, clauses.data, parameters, Order::of_timers);
}

Batch pick_due(const Target& target, int batch) {
    Binding& binding = *target.binding;
    auto pick = [](const void* argument, const ScanPosition* behind, int level, int most) {
        return pick_range(*static_cast<const Target*>(argument), behind, level, most);
    };
    return pick_next(binding, *timer_position(binding), pick, &target, batch);
}

bool is_shortest(const Binding& binding, int transition) {
    const core::Transition& drawn = binding.machine->machine->transitions()[transition];
    if (drawn.after.empty()) return false;
    Datum after = DirectFunctionCall3(interval_in, CStringGetDatum(drawn.after.c_str()), ObjectIdGetDatum(InvalidOid),
                                      Int32GetDatum(-1));
    return DatumGetBool(
        DirectFunctionCall2(interval_eq, after, IntervalPGetDatum(binding.managed->shortest_after[drawn.from])));
}

// The timer transition that a row takes now; no_state if its guards do not allow it, or there is none.
Step timer_step(const Target& target, const FoundRow& row, const Intent& intent) {
    Binding& binding = *target.binding;
    const BoundMachine& machine = *binding.machine;
    for (std::int32_t transition : machine.machine->leaving(row.state)) {
        if (!is_shortest(binding, transition)) continue;
        const Ownership ownership = ownership_of(binding, row.slot, acting(&intent, {}));
        if (ownership_fault(binding, ownership, transition) != OwnershipFault::none) continue;
        const core::StateId to = machine.machine->transitions()[transition].to;
        const char* guard = nullptr;
        if (binding.calls[transition].nguards > 0) {
            TupleDesc type = binding.row_descriptor;
            const RowVersions versions{{row.tuple, type, binding.to_root},
                                       {with_state(target, row.tuple, machine.state_text[to]), type, binding.to_root}};
            if (!guards_allow(binding, transition, versions, &guard)) continue;
        }
        return {to, machine.event_text[transition], nullptr};
    }
    return {core::no_state, nullptr, nullptr};
}

// Rows that stay, grouped by their next due time. In a state with a timer it starts again; in any other (`again` null)
// the due time is removed.
Batch staying(const Target& target, const Batch& batch, const Step* steps, const Interval* again) {
    const Managed& managed = *target.binding->managed;
    Batch some = {static_cast<FoundRow*>(palloc(sizeof(FoundRow) * Max(batch.n, 1))), 0};
    for (int i = 0; i < batch.n; ++i) {
        if (steps[i].to != core::no_state) continue;
        const core::StateId state = batch.rows[i].state;
        if ((state == core::no_state ? nullptr : managed.shortest_after[state]) == again)
            some.rows[some.n++] = batch.rows[i];
    }
    return some;
}

int64 let_stay(const Target& target, const Batch& batch, const Step* steps, Intent& intent) {
    const Managed& managed = *target.binding->managed;
    int64 done =
        set_column(target, staying(target, batch, steps, nullptr), managed.due, static_cast<Datum>(0), true, intent);
    const std::size_t states = target.binding->machine->machine->states().size();
    for (std::size_t state = 0; state < states; ++state) {
        const Interval* after = managed.shortest_after[state];
        if (after == nullptr) continue;
        const Batch waiting = staying(target, batch, steps, after);
        if (waiting.n == 0) continue;
        Datum again =
            DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(intent.at), IntervalPGetDatum(after));
        done += set_column(target, waiting, managed.due, again, false, intent);
    }
    return done;
}

TimestampTz earliest_due(const Target& target, const ScanPosition* behind, int level) {
    const char* due = column_name(target.binding->managed->due);
    StringInfoData query;
    initStringInfo(&query);
    Parameters parameters = {};
    appendStringInfo(&query, "SELECT %s FROM %s AS %s WHERE %s IS NOT NULL", due, target.table, row_alias, due);
    if (behind != nullptr) append_behind(&query, *target.binding, *behind, level, parameters);
    appendStringInfo(&query, " ORDER BY %s, %s LIMIT 1", due, order_by_key(*target.binding));
    if (run_planned(*target.binding, query.data, parameters, Order::of_timers) == 0) return DT_NOEND;
    bool null;
    return DatumGetTimestampTz(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &null));
}

// When the caller should return. If only rows behind the scan position were read, at the latest when the head is read
// again.
TimestampTz next_due(const Target& target) {
    const ScanPosition& position = *timer_position(*target.binding);
    const TimestampTz again = head_again(position);
    if (again == DT_NOEND) return earliest_due(target, nullptr, 0);
    const int levels = position_levels(*target.binding, position);
    TimestampTz next = DT_NOEND;
    for (int level = 0; level < levels && next == DT_NOEND; ++level) next = earliest_due(target, &position, level);
    return Min(next, again);
}

// How timers are fired.
struct Firing {
    const Target* target;
    Intent* intent;

    int64 fire(const Batch& due) const {
        intent->timed = intent->still = false;
        intent->event = nullptr;
        intent->at = GetCurrentTimestamp();
        auto* steps = static_cast<Step*>(palloc(sizeof(Step) * Max(due.n, 1)));
        for (int i = 0; i < due.n; ++i)
            steps[i] = due.rows[i].state == core::no_state ? Step{core::no_state, nullptr, nullptr}
                                                           : timer_step(*target, due.rows[i], *intent);
        intent->timed = true;
        const int64 moved = take_steps(*target, due, steps, *intent);
        return moved + let_stay(*target, due, steps, *intent);
    }
    static int64 see_to(const Batch& due, void* argument) { return static_cast<Firing*>(argument)->fire(due); }
};

// Rows that raise errors stay due, and do not hide those behind them.
int64 fire_apart(Firing& firing, int64 most, Raising& raising) {
    int64 fired = 0;
    int kept = 0;
    while (fired < most && kept < most_rows && raising.n < Raising::most) {
        const int asked = static_cast<int>(most - fired);
        const Batch due = pick_range(*firing.target, nullptr, 0, asked, kept);
        const int64 done = see_to_apart(*firing.target, due, Firing::see_to, &firing, raising);
        fired += done;
        kept += due.n - static_cast<int>(done);
        if (due.n < asked) break;
    }
    return fired;
}

DutyResult fire_due(Oid relation, const char* column, int most) {
    const Target target = open_target(relation, column);
    if (target.binding->managed == nullptr || !target.binding->managed->due.kept())
        no_such_work(target, "no timers", "pawl.enable_timers", "due");
    Intent intent = work_intent(target, pg::call([] { return processor_setting(); }));
    IntentScope scope(intent);
    return pg::call([&] {
        SPI_connect();
        Firing firing = {&target, &intent};
        Raising raising;
        DutyResult total = {0, DT_NOEND};
        if (ErrorData* error = try_alone([&] { total.done = firing.fire(pick_due(target, most)); })) {
            raise_unless_of_row(target, error);
            total.done = fire_apart(firing, most, raising);
            tell_of_more(target, raising);
        }
        total.next = next_due(target);
        if (total.done < most) total.next = raising.next(total.next);
        SPI_finish();
        close_target(target);
        return total;
    });
}

}  // namespace

PAWL_FUNCTION(pawl_fire_due) {
    return run_duty(fcinfo, fire_due, "b.due_column IS NOT NULL");
}

}  // namespace pawl
