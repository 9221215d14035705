// A worker: takes work in batches, runs handlers on a pool of threads, keeps its leases alive, reports results in batches, and ends
// in good order.
//
//     pawl::Worker worker({.connection = {.target = "dbname=shop"}, .name_space = "billing"});
//     worker.on("charge_card", [](const pawl::Job& job) { return nlohmann::json{{"receipt", charge(job.context)}}; });
//     pawl::StopOnSignals signals(worker);     // SIGTERM and SIGINT drain it
//     worker.run();
//
// A step is run at least once, and its result counts exactly once: a result that comes after the lease was lost is dropped.
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

// One piece of work, as a handler sees it. The handler may use it from its own thread only, and until it returns.
struct Job {
    std::string handler;      // the name it was registered under
    std::string name;         // the step's name; of other tables the row's key
    std::string task;         // the step's task; empty for other tables
    std::string key;          // the step's id, or the row's key
    std::int64_t token = 0;   // the fencing token: who writes elsewhere on behalf of this job can be fenced by it too
    int attempt = 1;
    nlohmann::json context;   // the task's context; of other tables the whole row
    nlohmann::json inputs;    // results of the steps this one waited for, by their names
    nlohmann::json options;   // handler_options of the step
    std::string correlation_id;

    // Why the values above cannot be read (JSON that is nested too deep, say). Such a job fails for good without its handler. Empty: they can.
    std::string problem;

    // The handler's span in the trace in which the task began, for what it asks of others; the report of its result belongs to it.
    Trace trace;

    // Asks to stop when the work is no longer ours (cancelled, taken over, the lease could not be extended) or the worker's grace has run out.
    std::stop_token stop;
};

// Returns the result. An exception is a failure that may be tried again, unless it is one of those below. Whoever was told to stop and
// throws has not failed: nothing is reported but a PermanentFailure, and the work goes back.
using Handler = std::function<nlohmann::json(const Job&)>;

// Thrown by a handler: no retry will mend this.
class PermanentFailure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// Thrown by a handler: a failure of a type, to which retry controllers of flows may have an answer of their own.
class Failure : public std::runtime_error {
public:
    Failure(std::string type, const std::string& why) : std::runtime_error(why), type_(std::move(type)) {}
    const std::string& type() const noexcept { return type_; }

private:
    std::string type_;
};

// Thrown by a handler: try again, but not before `after` has passed (Retry-After); the step's backoff caps it.
class RetryLater : public std::runtime_error {
public:
    RetryLater(const std::string& why, std::chrono::milliseconds after) : std::runtime_error(why), after_(after) {}
    std::chrono::milliseconds after() const noexcept { return after_; }

private:
    std::chrono::milliseconds after_;
};

// An enforced table to work on instead of pawl_dag.steps. Its lifecycle must have owner, token and claim events, its key one column.
struct JobTable {
    std::string relation;
    std::string success_event;
    std::string failure_event;
    std::optional<std::string> permanent_failure_event = std::nullopt;  // default: failure_event
    std::optional<std::string> claim_event = std::nullopt;              // default: the binding's only one
    std::string handler = "job";                                        // the handler that runs all of its rows
    std::optional<std::string> traceparent_column = std::nullopt;       // of the row, if it has one
};

struct WorkerSettings {
    ConnectionSettings connection = {};

    // The queue that is claimed from: a namespace of workflows, or a queue of the job table.
    std::string name_space = "default";

    // Empty: the steps of workflows.
    std::optional<JobTable> table = std::nullopt;

    int threads = 4;
    int batch = 0;                                    // rows in hand at once; 0: twice the threads
    std::chrono::milliseconds lease{60'000};          // extended at every third of it
    std::chrono::milliseconds grace{30'000};          // how long stop() waits for handlers before it asks them to stop
    std::chrono::milliseconds shortest_poll{5};       // the wait between two looks for work grows from this (from a fifth of it after work) ...
    std::chrono::milliseconds longest_poll{1'000};    // ... to this
    bool wake = true;                                 // be notified of work; behind a pooler in transaction mode it polls
    bool orchestrate = true;                          // move tasks on after reporting, without waiting for pawld

    // Who says that there is work: by default the database, by waking or being asked.
    MessageSettings messages = {};

    // Told of each result that was dropped because the work was no longer ours; called on the worker's own thread.
    std::function<void(const Job&)> on_dropped = {};

    // Told what a log would want to know, one line each; called on any thread of the worker, one at a time.
    std::function<void(const std::string&)> on_message = {};
};

struct WorkerCounts {
    std::uint64_t claimed = 0;
    std::uint64_t told = 0;  // of these, by messages
    std::uint64_t succeeded = 0;
    std::uint64_t failed = 0;
    std::uint64_t dropped = 0;
    std::uint64_t abandoned = 0;
    std::uint64_t reconnects = 0;
};

class Worker {
public:
    explicit Worker(WorkerSettings settings);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    // Registers a handler; before run() only. The one called "" gets what no other is registered for.
    Worker& on(const std::string& handler, Handler function);

    // Works until stop(), through losses of the database. Throws what can only be mended by hand: no such table, no privilege.
    void run();

    // Begins the drain: nothing more is claimed, running handlers finish, the rest goes back. Callable from any thread and from a
    // signal handler, any number of times.
    void stop() noexcept;

    // The uuid under which it owns work.
    const std::string& processor() const noexcept;

    WorkerCounts counts() const;

private:
    friend class SagaWorker;
    using SourceMaker = std::unique_ptr<WorkSource> (*)(const WorkerSettings&, const std::string& processor);
    Worker(WorkerSettings settings, SourceMaker source);

    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// While it lives, SIGTERM and SIGINT call stop. Make it before any thread is started: threads inherit what is blocked.
class StopOnSignals {
public:
    explicit StopOnSignals(std::function<void()> stop);
    explicit StopOnSignals(Worker& worker);
    ~StopOnSignals();
    StopOnSignals(const StopOnSignals&) = delete;
    StopOnSignals& operator=(const StopOnSignals&) = delete;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl
