// May throw and may ereport. See exchange.hpp. What ereports owns nothing, and runs inside pg::call.
#include "packs/dag/exchange.hpp"

#include <cmath>

#include "core/transient.hpp"
#include "packs/dag/inputs.hpp"
#include "packs/dag/orchestrating.hpp"
#include "packs/dag/report_input.hpp"
#include "packs/dag/statements.hpp"
#include "pg/row_trigger.hpp"
#include "pg/spi.hpp"
#include "work/claim.hpp"
#include "work/trial.hpp"

namespace pawl::dag {

namespace {

constexpr const char* find_answers = "SELECT a.* FROM pawl_dag._answers(pawl_dag._read_reports($1), $2, $3) a";

// For the statements of this transaction until the nest level of settings ends.
void say(const char* setting, const char* value) {
    set_config_option(setting, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

void unset(const char* setting) {
    const char* value = GetConfigOption(setting, true, false);
    if (value != nullptr && *value != '\0') say(setting, "");
}

// Steps are claimed in this order: the highest rank first, then by key.
int by_claim_order(const void* one, const void* other) {
    const auto& a = *static_cast<const ClaimedStep*>(one);
    const auto& b = *static_cast<const ClaimedStep*>(other);
    if (a.rank != b.rank) return a.rank > b.rank ? -1 : 1;
    for (const auto column : {ClaimedStep::task, ClaimedStep::step})
        if (const int order = memcmp(DatumGetUUIDP(a.values[column]), DatumGetUUIDP(b.values[column]), UUID_LEN);
            order != 0)
            return order;
    return 0;
}

bool failed(const Element& element) {
    return DatumGetBool(element.values[Element::failed]);
}

// Ereports; runs inside SPI.
class Work {
public:
    Work(const Asked& asked, const Elements& elements, Turn& turn, const Target& steps_table, Intent& intent,
         Tasks& tasks)
        : asked_(asked),
          elements_(elements),
          turn_(turn),
          steps_table_(steps_table),
          intent_(intent),
          tasks_(tasks),
          claiming_(work_intent(steps_table, asked.worker)) {
        claiming_.lease = asked.lease;
    }

    void run(FunctionCallInfo fcinfo) {
        const int level = NewGUCNestLevel();
        for (const char* setting : {"pawl.event", "pawl.events", "pawl.token"}) unset(setting);
        sound_ = sound_elements(elements_, &nsound_);
        intent_.any_token = true;
        const Datum own = own_tasks();
        turn_.pick_beside(own, nown_, asked_.orchestrate);
        if (nsound_ > 0) report();
        take_turn();
        claim_rest();
        ReturnSetInfo* result = pg::materialize(fcinfo);
        answer(result);
        return_claimed(result);
        AtEOXact_GUC(true, level);
    }

private:
    Datum own_tasks() {
        auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * Max(nsound_, 1)));
        for (int i = 0; i < nsound_; ++i)
            if (i == 0 || !same_id(*sound_[i], *sound_[i - 1], Element::task))
                values[nown_++] = sound_[i]->values[Element::task];
        return pg::array_of(values, nown_, UUIDOID);
    }

    bool completes(const Element& element) const {
        return !failed(element) && tasks_.find(*DatumGetUUIDP(element.values[Element::task])) != nullptr;
    }

    // A column of the elements.
    void add(Parameters& parameters, Oid type, Element::Column column) const {
        auto* values = static_cast<Datum*>(palloc(sizeof(Datum) * nsound_));
        auto* nulls = static_cast<bool*>(palloc(sizeof(bool) * nsound_));
        for (int i = 0; i < nsound_; ++i) {
            values[i] = sound_[i]->values[column];
            nulls[i] = sound_[i]->nulls[column];
        }
        parameters.add_column(type, values, nsound_, nulls);
    }

    // Records results. The worker reports, and the engine completes the steps of tasks that are in the turn. It waits
    // for a step that another session has locked: a result must not be lost.
    void report() {
        static constexpr Oid types[] = {INT4OID,  UUIDOID,  UUIDOID, INT8OID,    BOOLOID,
                                        JSONBOID, JSONBOID, BOOLOID, INTERVALOID};
        Parameters parameters = {};
        for (int column = 0; column < static_cast<int>(lengthof(types)); ++column)
            add(parameters, types[column], static_cast<Element::Column>(column));
        auto* completing = static_cast<Datum*>(palloc(sizeof(Datum) * nsound_));
        for (int i = 0; i < nsound_; ++i) completing[i] = BoolGetDatum(completes(*sound_[i]));
        parameters.add_column(BOOLOID, completing, nsound_);
        parameters.add(TEXTOID, PointerGetDatum(asked_.worker));
        say("pawl.processor", text_to_cstring(asked_.worker));
        const EventList events = {2, {cstring_to_text("EnqueueForOrchestration"), cstring_to_text("Complete")}};
        const text* processors[] = {asked_.worker, cstring_to_text(engine)};
        turn_.by_steps();
        intent_.processor = asked_.worker;
        intent_.events = &events;
        intent_.events_to = cstring_to_text("complete");
        intent_.processors = processors;
        nrecorded_ = static_cast<int>(turn_.run(nsound_ == 1 ? report_steps.one : report_steps.many, parameters));
        intent_.events = nullptr;
        intent_.events_to = nullptr;
        intent_.processors = nullptr;
        note_recorded(SPI_tuptable);
    }

    void note_recorded(SPITupleTable* table) {
        reported_ = table;
        recorded_ = static_cast<Datum*>(palloc(sizeof(Datum) * Max(nrecorded_, 1)));
        for (int i = 0; i < nrecorded_; ++i) {
            recorded_[i] = pg::value_of(table, i, 1);
            const Element& element = elements_.items[DatumGetInt32(recorded_[i]) - 1];
            const pg_uuid_t& task = *DatumGetUUIDP(element.values[Element::task]);
            if (completes(element))
                turn_.note_completed(task, *DatumGetUUIDP(element.values[Element::step]));
            else if (Task* found = tasks_.find(task))
                found->has_results = true;
            any_failed_ |= failed(element);
        }
    }

    void take_turn() {
        if (tasks_.n == 0) return;
        intent_.processor = cstring_to_text(engine);
        say("pawl.processor", engine);
        turn_.record();
        turn_.count_results();
        if (turn_.has_children_to_count()) count_children();
        turn_.decide();
        enqueued_ = turn_.enqueue();
        turn_.move();
        turn_.set_aside_locked();
        if (turn_.troubles_are_over()) OidFunctionCall0(pg::function_of("pawl_dag", "_out_of_trouble"));
    }

    ClaimRequest request(int batch) const {
        ClaimRequest request = {};
        request.target = steps_table_;
        request.event = cstring_to_text("Start");
        request.processor = asked_.worker;
        request.lease = asked_.lease;
        request.batch = batch;
        request.queue = asked_.queue;
        return request;
    }

    // What waits is picked first, because it can precede the children.
    void count_children() {
        picked_ = pick_to_claim(request(asked_.batch), claiming_);
        looked_ = true;
        const int n = picked_.batch.n;
        auto* ranks = static_cast<Datum*>(palloc(sizeof(Datum) * 3 * Max(n, 1)));
        Datum* above = ranks + n;
        Datum* tasks = above + n;
        const AttrNumber rank = step_column("rank");
        const AttrNumber task = step_column("task_uuid");
        for (int i = 0; i < n; ++i) {
            bool null;
            TupleTableSlot* row = picked_.batch.rows[i].slot;
            const double value = -DatumGetFloat8(slot_getattr(row, rank, &null));
            ranks[i] = Float8GetDatum(value);
            above[i] = Float8GetDatum(nextafter(value, HUGE_VAL));
            tasks[i] = slot_getattr(row, task, &null);
        }
        starting_.worker = asked_.worker;
        starting_.queue = asked_.queue;
        starting_.most = asked_.batch;
        starting_.lease = asked_.lease;
        starting_.ranks = pg::array_of(ranks, n, FLOAT8OID);
        starting_.above_ranks = pg::array_of(above, n, FLOAT8OID);
        starting_.tasks = pg::array_of(tasks, n, UUIDOID);
        starting_.is_open = n > 0;
        turn_.count_children(&starting_);
    }

    AttrNumber step_column(const char* name) const {
        const int number = SPI_fnumber(steps_table_.binding->root_descriptor, name);
        if (number <= 0) elog(ERROR, "column \"%s\" of table \"steps\" does not exist", name);
        return static_cast<AttrNumber>(number);
    }

    // Claims what the children have left of the batch: of what was picked, and else of what the turn has enqueued.
    void claim_rest() {
        int left = asked_.batch - starting_.nstarted;
        claimed_.items = static_cast<ClaimedStep*>(palloc0(sizeof(ClaimedStep) * asked_.batch));
        for (int i = 0; i < starting_.nstarted; ++i) add_started(starting_.started[i]);
        if (looked_) left -= static_cast<int>(claim(picked_, left));
        if (left > 0 && (!looked_ || enqueued_ > starting_.nstarted)) {
            claiming_.at = 0;
            claim(pick_to_claim(request(left), claiming_), left);
        }
    }

    int64 claim(const Picked& picked, int most) {
        if (picked.batch.n == 0) return 0;
        say("pawl.processor", text_to_cstring(asked_.worker));
        const Intent turns = intent_;
        intent_ = claiming_;
        intent_.level = turns.level;
        intent_.outer = turns.outer;
        stop_orchestrating();  // as with any other claim, a timeout limits the lease
        const int64 taken = claim_picked(request(most), picked, most, intent_);
        intent_ = turns;
        for (int i = 0; i < picked.batch.n; ++i)
            if (picked.steps[i].after != nullptr) add_taken(picked.steps[i].after);
        return taken;
    }

    void add_started(int row) {
        ClaimedStep& step = claimed_.items[claimed_.n++];
        auto read = [&](ClaimedStep::Column column, int from) {
            step.values[column] =
                SPI_getbinval(starting_.rows->vals[row], starting_.rows->tupdesc, from, &step.nulls[column]);
        };
        read(ClaimedStep::task, 1);
        for (int column = ClaimedStep::step; column < ClaimedStep::of_step; ++column)
            read(static_cast<ClaimedStep::Column>(column), first_started_column + column - ClaimedStep::step);
        const int parents = first_started_column + ClaimedStep::of_step - ClaimedStep::step;
        const int32 nparents = DatumGetInt32(pg::value_of(starting_.rows, row, parents));
        step.has_parents = nparents > 0;
        step.rank = DatumGetFloat8(pg::value_of(starting_.rows, row, parents + 1));
        tell_of_task(step);
        tell_of_parent(step, nparents);
    }

    void add_taken(HeapTuple row) {
        ClaimedStep& step = claimed_.items[claimed_.n++];
        read_step(&step, row, steps_table_.binding->root_descriptor);
        bool null;
        step.rank =
            DatumGetFloat8(heap_getattr(row, step_column("rank"), steps_table_.binding->root_descriptor, &null));
        tell_of_task(step);
    }

    // A task of the turn is not read again.
    void tell_of_task(ClaimedStep& step) const {
        const Task* task = tasks_.find(*DatumGetUUIDP(step.values[ClaimedStep::task]));
        if (task == nullptr || task->own == nullptr) return;
        int n = 0;
        for (const auto column :
             {ClaimedStep::context, ClaimedStep::correlation, ClaimedStep::traceparent, ClaimedStep::tracestate})
            step.values[column] = turn_.told_of(*task, n++, &step.nulls[column]);
        step.found = true;
    }

    // If the only parent of a step is the only step that has ended, and was reported in this call.
    void tell_of_parent(ClaimedStep& step, int parents) const {
        const pg_uuid_t* ended = turn_.only_ended();
        if (parents != 1 || ended == nullptr || nrecorded_ != 1) return;
        const Element& element = elements_.items[DatumGetInt32(recorded_[0]) - 1];
        if (memcmp(ended, DatumGetUUIDP(element.values[Element::step]), UUID_LEN) != 0) return;
        auto of = [&](int column, bool* null) {
            return SPI_getbinval(reported_->vals[0], reported_->tupdesc, column, null);
        };
        bool no_map, null;
        Parent parent = {};
        const Datum map = of(3, &no_map);
        parent.mapped = !no_map;
        parent.name = pg::view(DatumGetTextPP(no_map ? of(2, &null) : map));
        parent.state = "complete";
        parent.result = of(4, &null);
        parent.has_result = !null;
        step.values[ClaimedStep::parents] = parents_object(&parent, 1);
        step.knows_parents = true;
    }

    // One row an element, in their order.
    void answer(ReturnSetInfo* result) const {
        if (any_failed_ || nrecorded_ < elements_.n) return answer_by_query(result);
        const Datum complete = CStringGetTextDatum("complete");
        const Datum enqueued = CStringGetTextDatum("enqueued_for_orchestration");
        for (int i = 0; i < elements_.n; ++i) {
            const Element& element = elements_.items[i];
            put_answer(result, element.values[Element::task], element.values[Element::step], BoolGetDatum(true),
                       completes(element) ? complete : enqueued, 0);
        }
    }

    void answer_by_query(ReturnSetInfo* result) const {
        Parameters parameters = {};
        parameters.add(JSONBOID, JsonbPGetDatum(asked_.results));
        parameters.add(INT4ARRAYOID, pg::array_of(recorded_, nrecorded_, INT4OID));
        parameters.add(TEXTOID, PointerGetDatum(asked_.worker));
        const int n = static_cast<int>(turn_.run(find_answers, parameters));
        SPITupleTable* answers = SPI_tuptable;
        for (int i = 0; i < n; ++i) {
            auto of = [&](int column) { return pg::value_of(answers, i, column); };
            put_answer(result, of(1), of(2), of(3), of(4), of(5));
        }
    }

    // No value is 0 but nulls, and ok, which is not null.
    static void put_answer(ReturnSetInfo* result, Datum task, Datum step, Datum ok, Datum state, Datum problem) {
        Datum values[3 + ClaimedStep::columns] = {task, step, ok, state, problem};
        bool nulls[3 + ClaimedStep::columns] = {task == 0, step == 0, false, state == 0, problem == 0};
        for (int i = 5; i < 3 + ClaimedStep::columns; ++i) nulls[i] = true;
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }

    void return_claimed(ReturnSetInfo* result) {
        if (claimed_.n == 0) return;
        if (claimed_.n > 1) qsort(claimed_.items, claimed_.n, sizeof(ClaimedStep), by_claim_order);
        find_inputs(*steps_table_.binding, claimed_);
        Measured measured = {};
        for (int i = 0; i < claimed_.n; ++i) {
            ClaimedStep& step = claimed_.items[i];
            if (!step.found) continue;
            if (is_small(step)) {
                put_claimed(result, step, measured);
                continue;
            }
            MemoryContext own = AllocSetContextCreate(CurrentMemoryContext, "input of a step", ALLOCSET_DEFAULT_SIZES);
            MemoryContext outer = MemoryContextSwitchTo(own);
            put_claimed(result, step, measured);
            MemoryContextSwitchTo(outer);
            MemoryContextDelete(own);
        }
    }

    // An error ends the exchange, and pawl_dag.claim fails the step.
    static void put_claimed(ReturnSetInfo* result, ClaimedStep& step, Measured& measured) {
        form_input(step, measured);
        Datum values[3 + ClaimedStep::columns] = {};
        bool nulls[3 + ClaimedStep::columns] = {false, false, true, true, true};
        for (int column = 0; column < ClaimedStep::columns; ++column) {
            const int to = column < ClaimedStep::name ? column : column + 3;
            values[to] = step.values[column];
            nulls[to] = step.nulls[column];
        }
        tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
    }

    const Asked& asked_;
    const Elements& elements_;
    Turn& turn_;
    const Target& steps_table_;
    Intent& intent_;
    Tasks& tasks_;
    Intent claiming_;
    Element** sound_ = nullptr;
    int nsound_ = 0;
    int nown_ = 0;
    Datum* recorded_ = nullptr;
    int nrecorded_ = 0;
    SPITupleTable* reported_ = nullptr;
    bool any_failed_ = false;
    Picked picked_ = {};
    bool looked_ = false;
    Starting starting_ = {};
    int64 enqueued_ = 0;
    ClaimedSteps claimed_ = {};
};

}  // namespace

bool exchange(FunctionCallInfo fcinfo, const Asked& asked, Intent& intent, Tasks& tasks) {
    const Target tasks_table = open_table("tasks");
    const Target steps_table = open_table("steps");
    return pg::call([&] {
        const Elements elements = read_elements(&asked.results->root);
        SPI_connect();
        Turn turn(tasks_table, steps_table, intent, tasks);
        Work work(asked, elements, turn, steps_table, intent, tasks);
        ErrorData* error = try_alone([&] { work.run(fcinfo); });
        // the error is in memory that SPI_finish frees
        if (error != nullptr && core::is_transient(unpack_sql_state(error->sqlerrcode))) ReThrowError(error);
        SPI_finish();
        tasks = {};
        close_target(steps_table);
        close_target(tasks_table);
        return error == nullptr;
    });
}

}  // namespace pawl::dag
