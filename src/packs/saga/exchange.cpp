// May throw and may ereport: pawl_saga.report_and_claim, a report and the next claim of a worker in one transaction.
// Those tasks that the report makes claimable, and that a claim would give before any that wait, begin by the UPDATE
// that counts them down.
#include "packs/saga/exchange.hpp"

#include "core/transient.hpp"
#include "packs/saga/uncounted.hpp"
#include "pg/row_trigger.hpp"
#include "pg/spi.hpp"
#include "pg/sqlstate.hpp"
#include "placement/placements.hpp"
#include "work/trial.hpp"

namespace pawl::saga {

namespace {

// Failures are left to the two parts, because what they decide concerns tasks that were picked before; and so are the
// tasks of SQL functions, which few roles claim.
bool are_plain(const Elements& elements, const Asked& asked) {
    for (int i = 0; i < elements.sound; ++i)
        if (elements.by_task[i]->failed) return false;
    return elements.sound > 0 && pg::view(asked.queue) != "sql:";
}

// Does both in one subtransaction. Ereports; runs inside SPI.
class Exchange {
public:
    Exchange(const Elements& elements, const Asked& asked, const ClaimRequest& request, Intent& intent,
             Starting& starting)
        : elements_(elements),
          asked_(asked),
          request_(request),
          tasks_(*request.target.binding),
          intent_(intent),
          starting_(starting) {}

    // What lost workers left, and what is to be reverted, comes first, and of a paused queue nothing begins: then
    // nothing is done, and the result is false.
    bool run(ReturnSetInfo* result) {
        const Flows locked = lock_flows(tasks_, elements_);
        const Queue queue = look_at(asked_, tasks_);
        if (queue.has_lost || queue.has_reverts || queue.paused) return false;
        require_queue_here(tasks_.root, asked_.queue);
        const pg::Seen others = look_for_waiting(asked_, tasks_, waiting_);
        begin_starting(others, locked);
        record_elements(tasks_, asked_.processor, intent_, elements_);
        take_starting();
        Claimed claimed = {tasks_.root_descriptor, starting_.rows, starting_.n};
        if (others != pg::Seen::none || starting_.missed) claim_next_into(claimed);
        missing_ = starting_.decided ? asked_.batch - claimed.n : 0;
        for (int i = 0; i < elements_.n; ++i) answer(result, elements_.items[i]);
        answer(claimed, tasks_, result, Forming::at_once);
        return true;
    }

    // How many more tasks may be claimed, if some can perhaps be.
    int missing() const { return missing_; }

private:
    void begin_starting(pg::Seen others, const Flows& locked) {
        starting_.under_way = statements_under_way();
        starting_.locked = &locked;
        starting_.worker = asked_.processor;
        starting_.queue = asked_.queue;
        starting_.lease = asked_.lease;
        starting_.room = others == pg::Seen::unknown ? 0 : asked_.batch;
        starting_.waiting = others == pg::Seen::some ? &waiting_ : nullptr;
        starting_.memory = CurrentMemoryContext;
        starting_.rows = static_cast<HeapTuple*>(palloc(sizeof(HeapTuple) * asked_.batch));
        note_starting(&starting_);
    }

    void claim_next_into(Claimed& claimed) {
        const int room = asked_.batch - claimed.n;
        if (room <= 0) return;
        ClaimRequest request = request_;
        request.batch = room;
        intent_.processor = asked_.processor;
        intent_.lease = asked_.lease;
        const Picked picked = pick_to_claim(request, intent_);
        if (picked.batch.n == 0) return;
        claim_picked(request_, picked, room, intent_);
        for (int i = 0; i < picked.batch.n; ++i)
            if (picked.steps[i].after != nullptr) claimed.rows[claimed.n++] = picked.steps[i].after;
    }

    const Elements& elements_;
    const Asked& asked_;
    const ClaimRequest& request_;
    Binding& tasks_;
    Intent& intent_;
    Starting& starting_;
    Rank waiting_ = {};  // the first of those that wait
    int missing_ = 0;
};

// Returns how many more tasks are to be claimed; -1: nothing was done, and the two parts have to be done one by one.
// Raises transient errors.
int exchange(FunctionCallInfo fcinfo, const Elements& elements, const Asked& asked) {
    const Target tasks = open_tasks();
    const ClaimRequest request = request_of(tasks, "execute", asked, asked.batch);
    Intent intent = {};
    intent.root = tasks.binding->root;
    intent.column = NameStr(tasks.binding->column);
    intent.any_token = true;
    const IntentScope scope(intent);
    Starting starting = {};
    const NotedStarting noted;
    return pg::call([&] {
        SPI_connect();
        Exchange both(elements, asked, request, intent, starting);
        bool done = false;
        ErrorData* error = try_alone([&] { done = both.run(reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo)); });
        if (!done) tuplestore_clear(reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo)->setResult);
        // the error is in memory that SPI_finish frees
        if (error != nullptr && core::is_transient(unpack_sql_state(error->sqlerrcode))) ReThrowError(error);
        SPI_finish();
        close_target(tasks);
        return done ? both.missing() : -1;
    });
}

}  // namespace

// pawl_saga.report_and_claim(results, processor, queue, batch, lease)
PAWL_FUNCTION(pawl_saga_report_and_claim) {
    Elements elements = elements_argument(fcinfo);
    Asked asked = asked_of(fcinfo, PG_ARGISNULL(1) ? nullptr : pg::text_argument(fcinfo, 1), 2);
    pg::call([&] {
        pg::materialize(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
        set_processor(asked.processor);
    });
    const int more = are_plain(elements, asked) ? exchange(fcinfo, elements, asked) : -1;
    if (more < 0) report(fcinfo, elements, asked.processor);
    if (more > 0) asked.batch = more;
    if (more != 0) claim(fcinfo, asked);
    return static_cast<Datum>(0);
}

}  // namespace pawl::saga
