// A conductor: claims jobs of a board, begins or resumes their flows, waits until the flows have ended, and consumes
// the jobs.
//
//     pawl::Conductor conductor({.connection = {.target = "dbname=travel"}, .board = "trips"});
//     const pawl::StopOnSignals signals([&] { conductor.stop(); });
//     conductor.run();
//
// It owns jobs by a lease, or for as long as its session lives. If it dies, another conductor claims them. Flows are
// rows: they continue.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>
#include <pqxx/pqxx>

#include <pawl/connection.hpp>

namespace pawl {

/// A job, as callbacks see it.
struct SagaJob {
    std::string job;  ///< Its UUID.
    std::string name;
    std::string definition;  ///< The name of the flow to begin; empty: the job names none.
    nlohmann::json inputs;
    nlohmann::json details;
    std::string flow;        ///< The UUID of the flow that was begun; empty: none yet.
    std::int64_t token = 0;  ///< The fencing token.
    int attempt = 1;
};

/// What happened to a job.
enum class JobEvent {
    began,       ///< Its flow was begun.
    went_on,     ///< It had a flow, which continues.
    consumed,    ///< Its flow has ended, and so has the job.
    given_back,  ///< It was returned to the board at stop().
    trashed,     ///< No flow could be begun. The job is out of circulation.
    lost,        ///< This conductor does not own it any more.
};

/// "began", "went on", ...: for logs. Static storage.
const char* name_of(JobEvent event) noexcept;

/// Everything has a default.
struct ConductorSettings {
    ConnectionSettings connection = {};
    std::string board = "default";
    int jobs = 100;  ///< In-flight jobs at once.
    std::optional<std::uint64_t> limit =
        std::nullopt;                         ///< run() returns after so many jobs have ended. Default: never.
    std::chrono::milliseconds lease{60'000};  ///< Lease time. Extended every third of it.

    /// Own jobs by the session instead of a lease (pawl_saga.tie_job). Needs a session: see ConnectionSettings::pooler.
    bool tied = false;

    std::chrono::milliseconds shortest_poll{5};   ///< First wait between two polls; doubled by every poll without work.
    std::chrono::milliseconds longest_poll{500};  ///< Longest wait between two polls.
    bool wake = true;  ///< Wait for notifications of jobs. False, or behind a transaction pooler: poll.

    /// Begins the flow of a job, in the transaction that claims the job, and returns its UUID. Default: begins the
    /// newest version of SagaJob::definition. An exception trashes the job, unless it is temporary.
    std::function<std::string(pqxx::transaction_base&, const SagaJob&)> begin = {};

    /// Both are called on threads of the conductor, one call at a time.
    std::function<void(const SagaJob&, JobEvent)> on_event = {};
    std::function<void(const std::string&)> on_message = log_to_standard_error;
};

/// Counts since the conductor was made, by JobEvent.
struct ConductorCounts {
    std::uint64_t claimed = 0;  ///< began and went_on.
    std::uint64_t consumed = 0;
    std::uint64_t given_back = 0;
    std::uint64_t trashed = 0;
    std::uint64_t lost = 0;
};

/// Thread-safe are stop(), processor() and counts().
class Conductor {
public:
    /// Does not connect.
    explicit Conductor(ConductorSettings settings);
    ~Conductor();
    Conductor(const Conductor&) = delete;
    Conductor& operator=(const Conductor&) = delete;

    /// Works until stop(), or until the limit is reached. Losses of the database are survived.
    /// @throws Error that no retry can cure; SessionRequired if jobs are tied behind a transaction pooler
    void run();

    /// Nothing more is claimed, and in-flight jobs return to the board; their flows continue. Callable from any thread,
    /// any number of times.
    void stop() noexcept;

    /// The UUID under which it owns jobs.
    const std::string& processor() const noexcept;

    ConductorCounts counts() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl
