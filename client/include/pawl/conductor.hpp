// A conductor: takes jobs of a board, begins their flows (or goes on with them), waits until they have ended, and consumes the jobs.
//
//     pawl::Conductor conductor({.connection = {.target = "dbname=travel"}, .board = "trips"});
//     const pawl::StopOnSignals signals([&] { conductor.stop(); });
//     conductor.run();
//
// It owns jobs by a lease, or as long as its session lasts: who dies loses them to the next one, while the flows, which are rows, go on.
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

struct SagaJob {
    std::string job;
    std::string name;
    std::string definition;   // the flow to begin, by name; empty: the job names none
    nlohmann::json inputs;
    nlohmann::json details;
    std::string flow;         // the flow that was begun; empty: none yet
    std::int64_t token = 0;
    int attempt = 1;
};

// What became of a job: its flow was begun; it was there already; it has ended and the job is done; the job is back on the board; no flow
// could be begun, so it is out of circulation; somebody else has it, or nobody.
enum class JobEvent { began, went_on, consumed, given_back, trashed, lost };
const char* name_of(JobEvent event) noexcept;

struct ConductorSettings {
    ConnectionSettings connection = {};
    std::string board = "default";
    int jobs = 100;                                  // in hand at once
    std::optional<std::uint64_t> most = std::nullopt;  // ends when it has seen so many to their end; default: never
    std::chrono::milliseconds lease{60'000};         // extended at every third of it
    // jobs belong to the session instead (pawl_saga.tie_job); PoolerBetween behind a pooler in transaction mode
    bool tied = false;
    std::chrono::milliseconds shortest_poll{5};      // the wait between two looks grows from this ...
    std::chrono::milliseconds longest_poll{500};     // ... to this
    bool wake = true;                                // be notified of jobs; behind a pooler in transaction mode it polls

    // Makes the flow of a job in the transaction that takes the job, and returns its id. Default: the newest version of the flow that the job names.
    std::function<std::string(pqxx::transaction_base&, const SagaJob&)> begin = {};

    // Both on the conductor's threads, one at a time.
    std::function<void(const SagaJob&, JobEvent)> on_event = {};
    std::function<void(const std::string&)> on_message = {};
};

struct ConductorCounts {
    std::uint64_t claimed = 0;
    std::uint64_t consumed = 0;
    std::uint64_t given_back = 0;
    std::uint64_t trashed = 0;
    std::uint64_t lost = 0;
};

class Conductor {
public:
    explicit Conductor(ConductorSettings settings);
    ~Conductor();
    Conductor(const Conductor&) = delete;
    Conductor& operator=(const Conductor&) = delete;

    // Works until stop(), through losses of the database. Throws what can only be mended by hand.
    void run();

    // Nothing more is claimed, jobs in hand go back to the board; their flows go on. From any thread, any number of times.
    void stop() noexcept;

    // The uuid under which it owns jobs.
    const std::string& processor() const noexcept;

    ConductorCounts counts() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl
