// A worker: claims work in batches, runs handlers on a pool of threads, extends its leases, reports results in batches,
// and drains on stop().
//
//     pawl::Worker worker({.connection = {.target = "dbname=shop"}, .queue = "billing"});
//     worker.on("charge_card", [](const pawl::Job& job) { return nlohmann::json{{"receipt", charge(job.context)}}; });
//     pawl::StopOnSignals signals(worker);     // SIGTERM and SIGINT drain it
//     worker.run();
//
// A step runs at least once. Its result counts exactly once: a result that is reported after the lease was lost is
// dropped.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <pawl/connection.hpp>
#include <pawl/messages.hpp>
#include <pawl/trace.hpp>

namespace pawl {

class WorkSource;

/// One piece of work, as a handler sees it. Valid until the handler returns, for the handler's thread only.
struct Job {
    std::string handler;  ///< The name that the handler is registered under.
    std::string name;     ///< The step's name; of other tables the row's key.
    std::string task;     ///< The step's task; empty for other tables.
    std::string key;      ///< The step's id, or the row's key.
    std::int64_t token =
        0;  ///< The fencing token. Send it along with writes to other systems, so that they can reject stale ones.
    int attempt = 1;         ///< 1 for the first.
    nlohmann::json context;  ///< The task's context; of other tables the whole row.
    nlohmann::json inputs;   ///< The results of the steps that this one depends on, by name.
    nlohmann::json options;  ///< handler_options of the step.
    std::string correlation_id;

    /// Why the values above cannot be read, for example JSON that is nested too deep. Such a job fails permanently
    /// without a call of its handler. Empty otherwise.
    std::string problem;

    /// The handler's span in the trace in which the task began. The report of the result belongs to it.
    Trace trace;

    /// Asks the handler to stop: the lease was lost, the work was cancelled, or the worker's grace is over.
    std::stop_token stop;
};

/// Returns the result, as JSON of any type. An exception is a failure that is retried by the step's policy, unless it
/// is one of those below. In its text, what PostgreSQL cannot store (NUL, bytes that are not UTF-8) is U+FFFD. A result
/// that has such text, NaN or bytes is a permanent failure. If the handler was asked to stop, an exception other than
/// PermanentFailure reports nothing, and the work is returned. Called on several threads at once.
using Handler = std::function<nlohmann::json(const Job&)>;

/// Thrown by a handler: no retry can succeed.
class PermanentFailure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Thrown by a handler: a failure of a named type, for which retry controllers of flows can have an answer of their
/// own.
class Failure : public std::runtime_error {
public:
    Failure(std::string type, const std::string& why) : std::runtime_error(why), type_(std::move(type)) {}
    const std::string& type() const noexcept { return type_; }

private:
    std::string type_;
};

/// Thrown by a handler: retry, but not before `after` has passed (HTTP's Retry-After). The step's backoff limits it.
class RetryLater : public std::runtime_error {
public:
    RetryLater(const std::string& why, std::chrono::milliseconds after) : std::runtime_error(why), after_(after) {}
    std::chrono::milliseconds after() const noexcept { return after_; }

private:
    std::chrono::milliseconds after_;
};

/// An enforced table to work on instead of pawl_dag.steps. Its binding needs an owner column, a token column and claim
/// events, its key one column.
/// A result that is an object, and the error of a failure, are the metadata of the log entry.
struct JobTable {
    std::string relation;                                               ///< As regclass reads it.
    std::string success_event;                                          ///< Fired when a handler has returned.
    std::string failure_event;                                          ///< Fired when it has thrown.
    std::optional<std::string> permanent_failure_event = std::nullopt;  ///< Default: failure_event.
    std::optional<std::string> claim_event = std::nullopt;              ///< Default: the binding's only claim event.
    std::string handler = "job";                                        ///< The handler that runs all rows.
    std::optional<std::string> traceparent_column = std::nullopt;       ///< Default: rows have no trace.
};

/// Everything has a default. pawl/settings.hpp reads these settings from the environment.
struct WorkerSettings {
    ConnectionSettings connection = {};

    /// The queue to claim from: a namespace of pawl_dag, or a queue of the job table.
    std::string queue = "default";

    /// Whether the connection leads to one of several databases: then the worker connects to the one that its queue is
    /// in, and follows it when it moves. For steps of pawl_dag.
    bool placed = false;

    /// The table to work on. Default: the steps of pawl_dag.
    std::optional<JobTable> table = std::nullopt;

    int threads = 4;                          ///< Threads that run handlers.
    int batch = 0;                            ///< In-flight rows at once, up to 10000. 0: twice the threads.
    std::chrono::milliseconds lease{60'000};  ///< Lease time. Extended every third of it.
    std::chrono::milliseconds grace{
        30'000};  ///< After stop(): how long handlers may run before they are asked to stop.
    std::chrono::milliseconds shortest_poll{
        5};  ///< First wait between two polls; doubled by every poll without work. A fifth after work.
    std::chrono::milliseconds longest_poll{1'000};  ///< Longest wait between two polls.
    bool wake = true;         ///< Wait for notifications. False, or behind a transaction pooler: poll.
    bool orchestrate = true;  ///< Move tasks on after reports, without waiting for pawld.

    /// Which provider announces work. Default: the database.
    MessageSettings messages = {};

    /// Called for each result that was dropped because the lease was lost; on the thread that calls run(). Default: a
    /// line of the log.
    std::function<void(const Job&)> on_dropped = {};

    /// Called with lines for a log; on any thread of the worker, one call at a time.
    std::function<void(const std::string&)> on_message = log_to_standard_error;
};

/// Counts since the worker was made.
struct WorkerCounts {
    std::uint64_t claimed = 0;
    std::uint64_t announced = 0;  ///< Claimed because of a message.
    std::uint64_t succeeded = 0;
    std::uint64_t failed = 0;
    std::uint64_t dropped = 0;    ///< Results that came after the lease was lost.
    std::uint64_t abandoned = 0;  ///< Returned at the end, unhandled.
    std::uint64_t reconnects = 0;
};

/// Thread-safe are stop(), processor() and counts(). The other methods are for one thread.
class Worker {
public:
    /// Does not connect. @throws Error as check(const MessageSettings&) does
    explicit Worker(WorkerSettings settings);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    /// Registers a handler. Call it before run(). The handler named "" runs what no other is registered for.
    Worker& on(const std::string& handler, Handler function);

    /// Works until stop(), and returns when the worker has drained. Losses of the database are survived.
    /// @throws Error that no retry can cure, such as a missing table or privilege
    void run();

    /// Begins the drain: nothing more is claimed, running handlers finish and are reported, and other claimed rows are
    /// returned. Callable from any thread and from a signal handler, any number of times.
    void stop() noexcept;

    /// The UUID under which it owns rows.
    const std::string& processor() const noexcept;

    WorkerCounts counts() const;

private:
    friend class SagaWorker;
    using SourceMaker = std::unique_ptr<WorkSource> (*)(const WorkerSettings&, const std::string& processor);
    Worker(WorkerSettings settings, SourceMaker source);

    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// While it exists, SIGTERM and SIGINT call a function, on a thread of its own. Make it before other threads: they
/// inherit the blocked signals.
class StopOnSignals {
public:
    explicit StopOnSignals(std::function<void()> stop);
    explicit StopOnSignals(Worker& worker);  ///< Calls worker.stop(); the worker must outlive it.
    ~StopOnSignals();
    StopOnSignals(const StopOnSignals&) = delete;
    StopOnSignals& operator=(const StopOnSignals&) = delete;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl
