// May throw. The conductor: each turn consumes jobs whose flows have ended, and claims while there is room. What it
// knows of its jobs it reads from the rows.
#include <pawl/conductor.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include <pawl/flows.hpp>

#include "heartbeat.hpp"
#include "libpq.hpp"
#include "run_handler.hpp"
#include "session_loop.hpp"
#include "sql.hpp"
#include "temporary_error.hpp"

namespace pawl {
namespace {

using nlohmann::json;

// The jobs of this processor, with the states of their flows.
constexpr const char* own_statement =
    "SELECT j.job_uuid, j.name, j.flow, j.inputs, j.details, j.flow_uuid, j.token, j.attempts, f.state AS flow_state,"
    "       f.flow_uuid IS NULL AND j.flow_uuid IS NOT NULL AND NOT row_security_active('pawl_saga.flows') AS is_gone"
    "  FROM pawl_saga.jobs j LEFT JOIN pawl_saga.flows f ON f.flow_uuid = j.flow_uuid"
    " WHERE j.owner = $1 AND j.state = 'CLAIMED' AND j.lease_until > clock_timestamp() ORDER BY j.created_at, "
    "j.job_uuid";

constexpr const char* claim_statement =
    "SELECT c.job_uuid, c.name, c.flow, c.inputs, c.details, c.flow_uuid, c.token, c.attempts,"
    "       f.state AS flow_state,"
    "       f.flow_uuid IS NULL AND c.flow_uuid IS NOT NULL AND NOT row_security_active('pawl_saga.flows') AS is_gone"
    "  FROM pawl.claim(null::pawl_saga.jobs, 'claim', $1, $2::interval, 1, $3) c"
    "  LEFT JOIN pawl_saga.flows f ON f.flow_uuid = c.flow_uuid";

constexpr const char* tie_statement = "SELECT pawl_saga.tie_job($1::uuid, $2)";

// A claimed job and the state of its flow.
struct OwnedJob {
    SagaJob job;
    std::string flow_state;  // empty: there is no flow yet, or none any more, or none that may be seen
    bool gone;               // its flow was deleted

    bool ended() const { return flow_state == "SUCCESS" || flow_state == "REVERTED" || flow_state == "FAILURE"; }
    bool suspended() const { return flow_state == "SUSPENDED" || flow_state == "SUSPENDING"; }
};

OwnedJob owned_job(const sql::Row& row) {
    const auto text = [&](const char* column) { return row[column].text_or_empty(); };
    return {{.job = text("job_uuid"),
             .name = text("name"),
             .definition = text("flow"),
             .inputs = row["inputs"].json(),
             .details = row["details"].json(),
             .flow = text("flow_uuid"),
             .token = row["token"].as<std::int64_t>(),
             .attempt = row["attempts"].as<int>()},
            text("flow_state"),
            row["is_gone"].as<bool>()};
}

// Runs a statement about a job; false if this processor does not own it any more.
bool of_owned(pqxx::connection& connection, const char* statement, const std::string& job,
              const std::string& processor) {
    try {
        sql::run_alone(connection, statement, job, processor);
        return true;
    } catch (const error::not_the_owner&) {
    } catch (const error::lease_lost&) {
    } catch (const Error& rejection) {
        if (rejection.sqlstate() != "P0002") throw;
    }
    return false;
}

class JobLeases final : public Leases {
public:
    JobLeases(std::string processor, std::string lease) : processor_(std::move(processor)), lease_(std::move(lease)) {}

    bool any() override { return true; }
    void extend(pqxx::connection& connection) override {
        sql::run_alone(connection, "SELECT pawl.heartbeat('pawl_saga.jobs', $1, $2::interval)", processor_, lease_);
    }

private:
    const std::string processor_;
    const std::string lease_;
};

}  // namespace

const char* name_of(JobEvent event) noexcept {
    switch (event) {
        case JobEvent::began:
            return "began";
        case JobEvent::went_on:
            return "went on";
        case JobEvent::consumed:
            return "consumed";
        case JobEvent::given_back:
            return "given back";
        case JobEvent::trashed:
            return "trashed";
        case JobEvent::lost:
            return "lost";
    }
    return "";
}

struct Conductor::Impl final : LoopSource {
    explicit Impl(ConductorSettings given)
        : settings(std::move(given)),
          processor(random_uuid()),
          lease(std::to_string(settings.lease.count()) + " ms"),
          loop({.connection = settings.connection,
                .shortest_poll = settings.shortest_poll,
                .longest_poll = settings.longest_poll,
                .wake = settings.wake},
               *this, [this](const std::string& message) { log(message); }) {}

    void connected(pqxx::connection& connection) override;
    Next turn(pqxx::connection& connection) override;
    const std::string& relation() const noexcept override { return jobs_relation; }

    // Wake-ups announce jobs only. Flows that have ended are found by polling.
    bool can_claim() const override {
        return static_cast<int>(in_flight.size()) < settings.jobs && !limit_reached(in_flight.size());
    }
    bool finished() const override { return limit_reached(0); }

    bool limit_reached(std::size_t pending) const {
        return settings.limit && counts.consumed + counts.trashed + pending >= *settings.limit;
    }
    void run();
    bool consume_ended(pqxx::connection& connection);
    void tie_again(pqxx::connection& connection);
    bool claim_one(pqxx::connection& connection);
    void begin(pqxx::work& transaction, OwnedJob& claimed, JobEvent& event);
    void return_jobs();
    void report_event(const SagaJob& job, JobEvent event);
    void log(const std::string& message);

    ConductorSettings settings;
    const std::string processor;
    const std::string lease;
    const std::string jobs_relation = "pawl_saga.jobs";
    std::map<std::string, SagaJob> in_flight;
    std::mutex logging;
    SessionLoop loop;
    mutable std::mutex counting;
    ConductorCounts counts;
};

void Conductor::Impl::log(const std::string& message) {
    const std::lock_guard lock(logging);
    call_back(settings.on_message, message);
}

void Conductor::Impl::report_event(const SagaJob& job, JobEvent event) {
    {
        const std::lock_guard lock(counting);
        switch (event) {
            case JobEvent::began:
            case JobEvent::went_on:
                ++counts.claimed;
                break;
            case JobEvent::consumed:
                ++counts.consumed;
                break;
            case JobEvent::given_back:
                ++counts.given_back;
                break;
            case JobEvent::trashed:
                ++counts.trashed;
                break;
            case JobEvent::lost:
                ++counts.lost;
                break;
        }
    }
    const std::function<void(const SagaJob&)> tell = [&](const SagaJob& one) {
        const std::lock_guard lock(logging);
        if (settings.on_event) settings.on_event(one, event);
    };
    if (const auto why = call_back(tell, job); !why.empty()) log("on_event failed: " + why);
}

// A new session takes over the jobs of the lost one, unless they are back on the board.
void Conductor::Impl::tie_again(pqxx::connection& connection) {
    for (const auto& row : sql::run_alone(connection, own_statement, processor))
        of_owned(connection, tie_statement, owned_job(row).job.job, processor);
}

void Conductor::Impl::connected(pqxx::connection& connection) {
    if (settings.tied) {
        // a lock that ties jobs would stay with a session of the pool, and no job would ever come back
        require_session(keeps_session(connection, settings.connection), settings.connection, "the setting tied",
                        "Own the jobs by lease (tied = false), or connect to the server itself.");
        tie_again(connection);
    }
    log("conducts board " + settings.board);
}

// True if a job was consumed.
bool Conductor::Impl::consume_ended(pqxx::connection& connection) {
    bool consumed = false;
    std::map<std::string, SagaJob> owned;
    for (const auto& row : sql::run_alone(connection, own_statement, processor)) {
        const OwnedJob one = owned_job(row);
        if (one.ended() && of_owned(connection, "SELECT pawl_saga.consume_job($1::uuid, $2)", one.job.job, processor)) {
            in_flight.erase(one.job.job);
            report_event(one.job, JobEvent::consumed);
            consumed = true;
            continue;
        }
        // what it stored is lost: the next claim starts another flow, as often as the job can be taken
        if (one.gone && of_owned(connection, "SELECT pawl_saga.abandon_job($1::uuid, $2)", one.job.job, processor)) {
            in_flight.erase(one.job.job);
            report_event(one.job, JobEvent::given_back);
            continue;
        }
        owned.emplace(one.job.job, one.job);
    }
    for (const auto& [id, job] : in_flight)
        if (!owned.contains(id)) report_event(job, JobEvent::lost);
    in_flight = std::move(owned);
    return consumed;
}

// In the transaction of the claim, so that no job is claimed without a flow. If the flow cannot begin, that alone is
// undone.
void Conductor::Impl::begin(pqxx::work& transaction, OwnedJob& claimed, JobEvent& event) {
    SagaJob& job = claimed.job;
    const auto trash = [&](const std::string& why) {
        event = JobEvent::trashed;
        sql::run(transaction, "ROLLBACK TO SAVEPOINT before_flow");
        log("job " + job.name + " cannot begin: " + why);
        sql::run(transaction, "SELECT pawl_saga.trash_job($1::uuid, $2, $3)", job.job, processor, why);
    };
    sql::run(transaction, "SAVEPOINT before_flow");
    try {
        if (claimed.gone) job.flow.clear();
        if (job.flow.empty()) {
            if (!settings.begin && job.definition.empty()) throw Error("22004", "the job names no flow");
            job.flow = settings.begin ? sql::translated([&] { return settings.begin(transaction, job); })
                                      : start_flow(transaction, {.name = job.definition, .inputs = job.inputs});
            sql::run(transaction, "SELECT set_config('pawl.processor', $1, true)", processor);
            sql::run(transaction, "UPDATE pawl_saga.jobs SET flow_uuid = $2::uuid WHERE job_uuid = $1::uuid", job.job,
                     job.flow);
        } else {
            event = JobEvent::went_on;
            if (claimed.flow_state == "PENDING")
                run_flow(transaction, job.flow);
            else if (!claimed.suspended())
                resume_flow(transaction, job.flow);
        }
    } catch (const Error& rejection) {
        if (dynamic_cast<const ConnectionLost*>(&rejection) != nullptr || is_temporary(rejection)) throw;
        trash(storable_text(rejection.what()));
    } catch (...) {
        trash(text_of_exception());
    }
}

bool Conductor::Impl::claim_one(pqxx::connection& connection) {
    return sql::translated([&] {
        pqxx::work transaction(connection);
        const sql::Rows rows = sql::run(transaction, claim_statement, processor, lease, settings.board);
        if (rows.empty()) return false;
        OwnedJob claimed = owned_job(rows[0]);
        JobEvent event = JobEvent::began;
        begin(transaction, claimed, event);
        if (settings.tied && event != JobEvent::trashed)
            sql::run(transaction, tie_statement, claimed.job.job, processor);
        sql::commit(transaction);
        if (event != JobEvent::trashed) in_flight.emplace(claimed.job.job, claimed.job);
        report_event(claimed.job, event);
        return true;
    });
}

Next Conductor::Impl::turn(pqxx::connection& connection) {
    bool worked = consume_ended(connection);
    while (!loop.stopping() && can_claim() && claim_one(connection)) worked = true;
    return worked ? Next::at_once : Next::later;
}

void Conductor::Impl::return_jobs() {
    try {
        pqxx::connection& connection = loop.session();
        consume_ended(connection);
        sql::run_alone(connection, "SELECT pawl.abandon('pawl_saga.jobs', $1, 'abandon')", processor);
        for (const auto& [id, job] : in_flight) report_event(job, JobEvent::given_back);
        in_flight.clear();
    } catch (const std::exception& problem) {
        if (!in_flight.empty()) log(std::string("jobs were not returned, their leases expire: ") + problem.what());
    }
}

void Conductor::Impl::run() {
    // until the jobs are returned; the session itself keeps jobs that are tied to it
    std::optional<Heartbeat> heartbeat;
    if (!settings.tied)
        heartbeat.emplace(settings.connection, settings.lease, std::make_unique<JobLeases>(processor, lease),
                          [this](const std::string& message) { log(message); });
    loop.run();
    return_jobs();
}

Conductor::Conductor(ConductorSettings settings) : impl_(std::make_unique<Impl>(std::move(settings))) {}
Conductor::~Conductor() = default;

void Conductor::run() {
    impl_->run();
}

void Conductor::stop() noexcept {
    impl_->loop.stop();
}

const std::string& Conductor::processor() const noexcept {
    return impl_->processor;
}

ConductorCounts Conductor::counts() const {
    const std::lock_guard lock(impl_->counting);
    return impl_->counts;
}

}  // namespace pawl
