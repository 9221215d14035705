// A worker for the rows of bulk operations: claims them in batches, calls a handler with all rows of a step, reports in
// one statement.
//
//     pawl::RowWorker worker({.connection = {.target = "dbname=shop"}, .queue = "devices"});
//     worker.on("provision", [](std::vector<pawl::Row>& rows) {
//         for (pawl::Row& row : rows) if (!book(row.data)) row.fail("no credit");
//     });
//     pawl::StopOnSignals signals([&] { worker.stop(); });
//     worker.run();
//
// A row is handled at least once. Its result counts exactly once: a result that is reported after the lease was lost is
// dropped. The thread of a handler that hangs cannot be taken from it; the handler is asked to stop by Row::stop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <pawl/connection.hpp>
#include <pawl/trace.hpp>

namespace pawl {

/// A row at a step. A row without an outcome is ok when it was started, and still pending when it was checked.
struct Row {
    std::string operation;
    std::int64_t number = 0;
    int step_index = 0;
    std::string step;
    bool check = false;           ///< Find out whether the row is done: call done(), fail(), or neither.
    std::int64_t token = 0;       ///< The fencing token.
    int attempt = 0;              ///< Earlier retries of the operation.
    int tries = 0;                ///< Earlier executions in this attempt.
    std::string idempotency_key;  ///< The same for every execution of an attempt.
    std::string id;               ///< The business key; empty: none.
    nlohmann::json data;
    nlohmann::json metadata;  ///< Of the operation.
    Trace trace;              ///< A span of the row's own in the operation's trace; empty: none.
    /// Asks the handler to stop: the leases of the batch were lost, or the worker's grace is over.
    std::stop_token stop;

    void fail(std::string why) {
        outcome = check ? "failed" : "fail";
        message = std::move(why);
    }
    void done() { outcome = check ? "done" : "ok"; }

    std::string outcome = {};  ///< As pawl_bulk.report takes it. Set by fail() and done().
    std::string message = {};
};

/// Sets outcomes. An exception fails all rows of the batch that have none; if the handler was asked to stop, it gives
/// them back instead. Called on several threads at once.
using RowHandler = std::function<void(std::vector<Row>&)>;

/// Everything has a default. pawl/settings.hpp reads these settings from the environment.
struct RowWorkerSettings {
    ConnectionSettings connection = {};
    std::string queue = {};                   ///< Empty: every queue. A step's default queue is its definition's name.
    int threads = 1;                          ///< Each has a connection of its own.
    int batch = 500;                          ///< Rows that a thread claims at once.
    std::chrono::milliseconds lease{60'000};  ///< Lease time. Extended every third of it.
    std::chrono::milliseconds grace{
        30'000};  ///< After stop(): how long handlers may run before they are asked to stop.
    std::chrono::milliseconds shortest_poll{5};   ///< First wait between two polls; doubled by every poll without work.
    std::chrono::milliseconds longest_poll{500};  ///< Longest wait between two polls.
    bool wake = true;  ///< Wait for notifications. False, or behind a transaction pooler: poll.

    /// Called with lines for a log; on any thread of the worker, one call at a time.
    std::function<void(const std::string&)> on_message = log_to_standard_error;
};

/// Counts since the worker was made.
struct RowWorkerCounts {
    std::uint64_t claimed = 0;
    std::uint64_t reported = 0;
    std::uint64_t dropped = 0;    ///< Results that came after the lease was lost.
    std::uint64_t abandoned = 0;  ///< Rows given back by stop(), for another worker.
};

/// Thread-safe are stop() and counts().
class RowWorker {
public:
    /// Does not connect.
    explicit RowWorker(RowWorkerSettings settings);
    ~RowWorker();
    RowWorker(const RowWorker&) = delete;
    RowWorker& operator=(const RowWorker&) = delete;

    /// Registers the handler of a step. Call it before run(). The handler named "" handles all other steps.
    RowWorker& on(const std::string& step, RowHandler handler);

    /// Works until stop(). Losses of the database are survived.
    /// @throws Error that no retry can cure
    void run();

    /// In-flight batches are finished and reported; after the grace their handlers are asked to stop. Then run()
    /// returns. Callable from any thread.
    void stop() noexcept;

    RowWorkerCounts counts() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl
