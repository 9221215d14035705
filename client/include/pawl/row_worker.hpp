// A worker for the rows of bulk operations: claims them in batches, hands each batch of one step to its handler, reports in one statement.
//
//     pawl::RowWorker worker({.connection = {.target = "dbname=shop"}, .queue = "devices"});
//     worker.on("provision", [](std::vector<pawl::Row>& rows) { for (pawl::Row& row : rows) if (!book(row.data)) row.fail("no credit"); });
//     pawl::StopOnSignals signals([&] { worker.stop(); });
//     worker.run();
//
// A row is worked on at least once, and its result counts exactly once: what comes after the lease was lost is dropped.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <pawl/connection.hpp>
#include <pawl/trace.hpp>

namespace pawl {

// A row at a step, as a handler sees it. Without a word from the handler a started row is ok, and one that is checked is pending.
struct Row {
    std::string operation;
    std::int64_t number = 0;
    int step_index = 0;
    std::string step;
    bool check = false;           // look whether it is done: done(), fail(), or nothing
    std::int64_t token = 0;
    int attempt = 0;              // retries of the operation before
    int tries = 0;                // executions before, of this attempt
    std::string idempotency_key;  // the same for every execution of an attempt
    std::string id;               // the business key
    nlohmann::json data;
    nlohmann::json metadata;      // of the operation
    Trace trace;                  // a span of the row's own in the operation's trace; empty: it has none

    void fail(std::string why) {
        outcome = check ? "failed" : "fail";
        message = std::move(why);
    }
    void done() {
        if (check) outcome = "done";
    }

    std::string outcome = {};
    std::string message = {};
};

// An exception fails all rows of the batch that have no outcome yet.
using RowHandler = std::function<void(std::vector<Row>&)>;

struct RowWorkerSettings {
    ConnectionSettings connection = {};
    std::string queue = {};                          // default of a step: the name of its definition
    int threads = 1;                                 // each with a connection of its own
    int batch = 500;
    std::chrono::milliseconds lease{60'000};         // extended at every third of it while a batch is being worked on
    std::chrono::milliseconds shortest_poll{5};
    std::chrono::milliseconds longest_poll{500};
    bool wake = true;                                // be notified of work; behind a pooler in transaction mode it polls

    // Told what a log would want to know, one line each; on any thread, one at a time.
    std::function<void(const std::string&)> on_message = {};
};

struct RowWorkerCounts {
    std::uint64_t claimed = 0;
    std::uint64_t reported = 0;
    std::uint64_t dropped = 0;
};

class RowWorker {
public:
    explicit RowWorker(RowWorkerSettings settings);
    ~RowWorker();
    RowWorker(const RowWorker&) = delete;
    RowWorker& operator=(const RowWorker&) = delete;

    // The handler of a step, by its name; of all other steps, by "". Before run() only.
    RowWorker& on(const std::string& step, RowHandler handler);

    // Works until stop(), through losses of the database. Throws what can only be mended by hand.
    void run();

    // Batches in hand are finished. From any thread.
    void stop() noexcept;

    RowWorkerCounts counts() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl
