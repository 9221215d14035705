// May throw. The conductor's loop: what has ended is consumed, what there is room for is claimed; all it knows of its jobs it asks the rows.
#include <pawl/conductor.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include <pawl/flows.hpp>

#include "pace.hpp"
#include "passing.hpp"
#include "signal_event.hpp"
#include "sleeper.hpp"
#include "sql.hpp"

namespace pawl {
namespace {

using nlohmann::json;

// What is ours, and how its flow stands.
constexpr const char* own_statement =
    "SELECT j.job_uuid, j.name, j.flow, j.inputs, j.details, j.flow_uuid, j.fence, j.attempts, f.state AS flow_state"
    "  FROM pawl_saga.jobs j LEFT JOIN pawl_saga.flows f ON f.flow_uuid = j.flow_uuid"
    " WHERE j.owner = $1 AND j.state = 'CLAIMED' AND j.lease_until > clock_timestamp() ORDER BY j.created_at, j.job_uuid";

constexpr const char* claim_statement =
    "SELECT c.job_uuid, c.name, c.flow, c.inputs, c.details, c.flow_uuid, c.fence, c.attempts,"
    "       (SELECT f.state FROM pawl_saga.flows f WHERE f.flow_uuid = c.flow_uuid) AS flow_state"
    "  FROM pawl.claim(null::pawl_saga.jobs, 'claim', $1, $2::interval, 1, $3) c";

constexpr const char* tie_statement = "SELECT pawl_saga.tie_job($1::uuid, $2)";

constexpr const char* relation = "pawl_saga.jobs";

struct Standing {
    SagaJob job;
    std::string flow_state;  // empty: there is no flow yet

    bool ended() const { return flow_state == "SUCCESS" || flow_state == "REVERTED" || flow_state == "FAILURE"; }
    bool suspended() const { return flow_state == "SUSPENDED" || flow_state == "SUSPENDING"; }
};

Standing standing_of(const sql::Row& row) {
    const auto text = [&](const char* column) { return row[column].text_or_empty(); };
    return {{.job = text("job_uuid"),
             .name = text("name"),
             .definition = text("flow"),
             .inputs = row["inputs"].json(),
             .details = row["details"].json(),
             .flow = text("flow_uuid"),
             .token = row["fence"].as<std::int64_t>(),
             .attempt = row["attempts"].as<int>()},
            text("flow_state")};
}

// A statement about a job; false where it is not ours any more.
bool of_ours(pqxx::connection& connection, const char* statement, const std::string& job, const std::string& processor) {
    try {
        sql::run_alone(connection, statement, job, processor);
        return true;
    } catch (const error::not_the_owner&) {
    } catch (const error::lease_lost&) {
    } catch (const Error& refused) {
        if (refused.sqlstate() != "P0002") throw;
    }
    return false;
}

}  // namespace

const char* name_of(JobEvent event) noexcept {
    switch (event) {
        case JobEvent::began: return "began";
        case JobEvent::went_on: return "went on";
        case JobEvent::consumed: return "consumed";
        case JobEvent::given_back: return "given back";
        case JobEvent::trashed: return "trashed";
        case JobEvent::lost: return "lost";
    }
    return "";
}

struct Conductor::Impl {
    explicit Impl(ConductorSettings given)
        : settings(std::move(given)),
          processor(random_uuid()),
          lease(std::to_string(settings.lease.count()) + " ms"),
          pace(settings.shortest_poll, settings.longest_poll) {}

    void beat(std::stop_token stop);
    bool turn();
    bool look_at_own();
    void tie_again();
    bool consume(const SagaJob& job);
    bool claim_one();
    void begin(pqxx::work& transaction, Standing& taken, JobEvent& event);
    void give_back();
    void tell(const SagaJob& job, JobEvent event);
    void say(const std::string& message);
    bool enough() const { return settings.most && counts.consumed + counts.trashed >= *settings.most; }
    bool room() const { return static_cast<int>(hand.size()) < settings.jobs && (!settings.most || counts.consumed + counts.trashed + hand.size() < *settings.most); }

    ConductorSettings settings;
    const std::string processor;
    const std::string lease;
    Pace pace;
    Sleeper sleeper;
    SignalEvent wake_up;
    SignalEvent end_of_heart;
    std::atomic<bool> stopping{false};
    std::unique_ptr<pqxx::connection> connection;
    std::map<std::string, SagaJob> hand;
    std::mutex saying;
    mutable std::mutex counting;
    ConductorCounts counts;
};

void Conductor::Impl::say(const std::string& message) {
    const std::lock_guard lock(saying);
    if (settings.on_message) settings.on_message(message);
}

void Conductor::Impl::tell(const SagaJob& job, JobEvent event) {
    {
        const std::lock_guard lock(counting);
        switch (event) {
            case JobEvent::began:
            case JobEvent::went_on: ++counts.claimed; break;
            case JobEvent::consumed: ++counts.consumed; break;
            case JobEvent::given_back: ++counts.given_back; break;
            case JobEvent::trashed: ++counts.trashed; break;
            case JobEvent::lost: ++counts.lost; break;
        }
    }
    const std::lock_guard lock(saying);
    if (settings.on_event) settings.on_event(job, event);
}

// On a connection of its own, so that a flow that takes long to begin costs no lease.
void Conductor::Impl::beat(std::stop_token stop) {
    const std::chrono::milliseconds period = std::max(settings.lease / 3, std::chrono::milliseconds(10));
    if (settings.tied) return;
    std::unique_ptr<pqxx::connection> own;
    for (end_of_heart.wait(-1, period); !stop.stop_requested(); end_of_heart.wait(-1, period)) {
        try {
            if (!own) own = connect(settings.connection);
            sql::run_alone(*own, "SELECT pawl.heartbeat('pawl_saga.jobs', $1, $2::interval)", processor, lease);
        } catch (const std::exception& problem) {
            say(std::string("no heartbeat: ") + problem.what());
            own.reset();
        }
    }
}

// False where it is not ours any more.
bool Conductor::Impl::consume(const SagaJob& job) { return of_ours(*connection, "SELECT pawl_saga.consume_job($1::uuid, $2)", job.job, processor); }

// A new session takes over what the lost one had, unless it is back on the board already.
void Conductor::Impl::tie_again() {
    for (const auto& row : sql::run_alone(*connection, own_statement, processor)) of_ours(*connection, tie_statement, standing_of(row).job.job, processor);
}

// True if a job has come to its end.
bool Conductor::Impl::look_at_own() {
    bool moved = false;
    std::map<std::string, SagaJob> ours;
    for (const auto& row : sql::run_alone(*connection, own_statement, processor)) {
        Standing standing = standing_of(row);
        if (standing.ended() && consume(standing.job)) {
            hand.erase(standing.job.job);
            tell(standing.job, JobEvent::consumed);
            moved = true;
            continue;
        }
        ours.emplace(standing.job.job, standing.job);
    }
    for (const auto& [id, job] : hand)
        if (!ours.contains(id)) tell(job, JobEvent::lost);
    hand = std::move(ours);
    return moved;
}

// In the transaction of the claim, so that no job is taken without a flow. What cannot begin is undone alone.
void Conductor::Impl::begin(pqxx::work& transaction, Standing& taken, JobEvent& event) {
    SagaJob& job = taken.job;
    sql::run(transaction, "SAVEPOINT before_flow");
    try {
        if (job.flow.empty()) {
            if (!settings.begin && job.definition.empty()) throw Error("22004", "the job names no flow");
            job.flow = settings.begin ? sql::translated([&] { return settings.begin(transaction, job); })
                                      : start_flow(transaction, {.name = job.definition, .inputs = job.inputs});
            sql::run(transaction, "SELECT set_config('pawl.processor', $1, true)", processor);
            sql::run(transaction, "UPDATE pawl_saga.jobs SET flow_uuid = $2::uuid WHERE job_uuid = $1::uuid", job.job, job.flow);
        } else {
            event = JobEvent::went_on;
            if (!taken.suspended()) resume_flow(transaction, job.flow);
        }
    } catch (const ConnectionLost&) {
        throw;
    } catch (const std::exception& problem) {
        const auto* refused = dynamic_cast<const Error*>(&problem);
        if (refused && passes(*refused)) throw;
        event = JobEvent::trashed;
        sql::run(transaction, "ROLLBACK TO SAVEPOINT before_flow");
        say("job " + job.name + " cannot begin: " + problem.what());
        sql::run(transaction, "SELECT pawl_saga.trash_job($1::uuid, $2, $3)", job.job, processor, std::string(problem.what()));
    }
}

bool Conductor::Impl::claim_one() {
    return sql::translated([&] {
        pqxx::work transaction(*connection);
        const sql::Rows claimed = sql::run(transaction, claim_statement, processor, lease, settings.board);
        if (claimed.empty()) return false;
        Standing taken = standing_of(claimed[0]);
        JobEvent event = JobEvent::began;
        begin(transaction, taken, event);
        if (settings.tied && event != JobEvent::trashed) sql::run(transaction, tie_statement, taken.job.job, processor);
        sql::commit(transaction);
        if (event != JobEvent::trashed) hand.emplace(taken.job.job, taken.job);
        tell(taken.job, event);
        return true;
    });
}

bool Conductor::Impl::turn() {
    if (!connection) {
        connection = connect(settings.connection);
        sleeper = Sleeper(settings.connection);
        // the lock that ties them would stay with a session of the pool, and no job would ever come back
        if (settings.tied && !keeps_session(*connection, settings.connection))
            throw PoolerBetween("the setting tied",
                                "Own the jobs by lease (tied = false), or connect to the server itself.");
        if (settings.tied) tie_again();
        say("conducts board " + settings.board);
    }
    bool moved = look_at_own();
    while (!stopping && room() && claim_one()) moved = true;
    return moved;
}

void Conductor::Impl::give_back() {
    try {
        if (!connection) connection = connect(settings.connection);
        look_at_own();
        sql::run_alone(*connection, "SELECT pawl.abandon('pawl_saga.jobs', $1, 'abandon')", processor);
        for (const auto& [id, job] : hand) tell(job, JobEvent::given_back);
        hand.clear();
    } catch (const std::exception& problem) {
        say(std::string("nothing is given back, the leases will run out: ") + problem.what());
    }
}

namespace {

// The heart beats until jobs were given back, and its pause must not hold up the end.
struct HeartStopper {
    ~HeartStopper() {
        heart.request_stop();
        wake_up.set();
    }
    std::jthread& heart;
    const SignalEvent& wake_up;
};

}  // namespace

Conductor::Conductor(ConductorSettings settings) : impl_(std::make_unique<Impl>(std::move(settings))) {}
Conductor::~Conductor() = default;

void Conductor::run() {
    Impl& my = *impl_;
    std::jthread heart([&my](std::stop_token stop) { my.beat(stop); });
    const HeartStopper stopper{heart, my.end_of_heart};
    while (!my.stopping && !my.enough()) {
        try {
            if (my.turn()) {
                my.pace.found();
                my.sleeper.found();
                continue;
            }
            // woken by jobs alone: while there are flows to wait for, it is looked again soon in any case
            if (my.settings.wake && my.room() && my.pace.next() > my.sleeper.patience(my.settings.shortest_poll) && my.sleeper.doze(*my.connection, relation)) continue;
            if (my.sleeper.found_pooler()) my.say(polls_behind_pooler);
            if (my.wake_up.wait(my.connection->sock(), my.pace.idle()) && my.sleeper.woken(*my.connection)) my.pace.found();
        } catch (const Error& problem) {
            const bool lost = dynamic_cast<const ConnectionLost*>(&problem) != nullptr;
            if (!lost && !passes(problem)) throw;
            if (lost) my.connection.reset();
            my.say(std::string(lost ? "connection lost: " : "will try again: ") + problem.what());
            my.wake_up.wait(-1, std::max(my.pace.idle(), std::chrono::milliseconds(50)));
        }
    }
    my.give_back();
}

void Conductor::stop() noexcept {
    impl_->stopping = true;
    impl_->wake_up.set();
}

const std::string& Conductor::processor() const noexcept { return impl_->processor; }

ConductorCounts Conductor::counts() const {
    const std::lock_guard lock(impl_->counting);
    return impl_->counts;
}

}  // namespace pawl
