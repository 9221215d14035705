// May throw and may ereport; owns nothing. The engine of a run: it waits while its flow is worked on, and ends with it.
#include "fire/plans.hpp"
#include "fire/target.hpp"
#include "guard/intent.hpp"
#include "pg/spi.hpp"

namespace pawl {

namespace {

constexpr const char* insert_run = "INSERT INTO pawl_saga.runs (flow_uuid, run) VALUES ($1, $2)";
constexpr const char* change_state =
    "UPDATE pawl_saga.runs r SET state = coalesce($3, 'WAITING'), "
    "ended_at = CASE WHEN $3 IS NOT NULL THEN clock_timestamp() END WHERE r.flow_uuid = $1 AND r.run = $2";

const char* event_of(std::string_view outcome) {
    if (outcome == "SUCCESS") return "success";
    if (outcome == "REVERTED") return "reverted";
    return outcome == "SUSPENDED" ? "suspended" : "failed";
}

// From the beginning until it waits, or from there to the outcome.
EventList events_to(const text* outcome) {
    auto list = [](const char* first, const char* second, const char* third) {
        return EventList{3, {cstring_to_text(first), cstring_to_text(second), cstring_to_text(third)}};
    };
    if (outcome == nullptr) return list("start", "schedule_next", "wait_finished");
    return list("examine_finished", "completed", event_of(pg::view(outcome)));
}

}  // namespace

// pawl_saga._engine(flow, number, outcome)
PAWL_FUNCTION(pawl_saga_engine) {
    pg::require(fcinfo, 0, "flow");
    pg::require(fcinfo, 1, "number");
    const text* outcome = PG_ARGISNULL(2) ? nullptr : pg::text_argument(fcinfo, 2);
    const Oid table = pg::call([] { return get_relname_relid("runs", get_namespace_oid("pawl_saga", false)); });
    const Target runs = open_target(table, "state");
    const EventList events = pg::call([&] { return events_to(outcome); });
    Intent intent = {};
    intent.root = table;
    intent.column = "state";
    intent.events = &events;
    const IntentScope scope(intent);
    pg::call([&] {
        SPI_connect();
        Parameters parameters = {};
        parameters.add(UUIDOID, PG_GETARG_DATUM(0));
        parameters.add(INT4OID, PG_GETARG_DATUM(1));
        if (outcome == nullptr) run_planned(*runs.binding, insert_run, parameters);
        parameters.add(TEXTOID, PointerGetDatum(outcome), outcome == nullptr);
        run_planned(*runs.binding, change_state, parameters, Order::sorted);
        SPI_finish();
        close_target(runs);
    });
    return static_cast<Datum>(0);
}

}  // namespace pawl
