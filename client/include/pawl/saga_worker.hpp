// A worker for the tasks of flows: executes and reverts them. Leases, fencing tokens, batches and draining are those of
// pawl::Worker.
//
//     pawl::SagaWorker worker({.connection = {.target = "dbname=travel"}});
//     worker.on("book_flight", [](const pawl::SagaTask& task) { return book(task.argument<std::string>("traveller"));
//     })
//           .on_revert("cancel_flight", [](const pawl::SagaTask& task) { cancel(task.done<Booking>()); });
//     const pawl::StopOnSignals signals([&] { worker.stop(); });
//     worker.run();
//
// A task is executed, and reverted, at least once. Each result counts exactly once.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <type_traits>

#include <nlohmann/json.hpp>

#include <pawl/connection.hpp>
#include <pawl/worker.hpp>

namespace pawl {

/// A task, as a handler sees it. Valid until the handler returns, for the handler's thread only.
struct SagaTask {
    std::string flow;
    int node = 0;
    std::string name;
    std::string handler;
    bool reverting = false;  ///< Undo the task; result or failure say what was done.
    std::int64_t token =
        0;  ///< The fencing token. Send it along with writes to other systems, so that they can reject stale ones.
    nlohmann::json arguments;  ///< By parameter.
    nlohmann::json result;     ///< When reverting: what execute returned; null if it failed.
    nlohmann::json failure;    ///< When reverting: how execute failed; null if it did not.
    nlohmann::json failures;   ///< When reverting: what failed in the flow, by atom.
    Trace trace;               ///< The handler's span in the trace in which the flow began.

    /// Asks the handler to stop: the task was lost, or the worker's grace is over.
    std::stop_token stop;

    /// An argument as a type. @throws PermanentFailure if it is missing or of another type
    template <typename T>
    T argument(const std::string& parameter) const {
        return as<T>(arguments, parameter);
    }

    /// What execute returned, as a type. @throws PermanentFailure if it is of another type
    template <typename T>
    T done() const {
        return as<T>({{"result", result}}, "result");
    }

    /// Reports progress, from 0 to 1. Another thread sends the newest report now and then; the handler does not wait.
    void progress(double fraction, const nlohmann::json& details = nullptr) const {
        if (report_progress) report_progress(fraction, details);
    }
    std::function<void(double, const nlohmann::json&)> report_progress = {};  ///< Set by the worker.

private:
    template <typename T>
    T as(const nlohmann::json& values, const std::string& name) const {
        try {
            return values.at(name).get<T>();
        } catch (const nlohmann::json::exception& wrong) {
            throw PermanentFailure("\"" + name + "\" of task \"" + this->name + "\": " + wrong.what());
        }
    }
};

/// Returns the result. An exception is the task's failure, unless the handler was asked to stop. The failure's type is
/// that of pawl::Failure, "permanent" for pawl::PermanentFailure, or the SQLSTATE of pawl::Error; retry controllers can
/// answer each.
using SagaHandler = std::function<nlohmann::json(const SagaTask&)>;

/// Everything has a default. pawl/settings.hpp reads these settings from the environment.
struct SagaWorkerSettings {
    ConnectionSettings connection = {};
    std::string queue = "default";
    int threads = 4;                          ///< Threads that run handlers.
    int batch = 0;                            ///< In-flight tasks at once, up to 10000. 0: twice the threads.
    std::chrono::milliseconds lease{60'000};  ///< Lease time. Extended every third of it.
    std::chrono::milliseconds grace{
        30'000};  ///< After stop(): how long handlers may run before they are asked to stop.
    std::chrono::milliseconds shortest_poll{5};  ///< First wait between two polls; doubled by every poll without work.
    std::chrono::milliseconds longest_poll{1'000};     ///< Longest wait between two polls.
    std::chrono::milliseconds progress_interval{200};  ///< Shortest time between two reports of progress.
    bool wake = true;               ///< Wait for notifications. False, or behind a transaction pooler: poll.
    MessageSettings messages = {};  ///< Which provider announces work. Default: the database.

    /// Called for each result that was dropped because the lease was lost; on the thread that calls run(). Default: a
    /// line of the log.
    std::function<void(const SagaTask&)> on_dropped = {};

    /// Called with lines for a log; on any thread of the worker, one call at a time.
    std::function<void(const std::string&)> on_message = log_to_standard_error;
};

/// Thread-safe are stop(), processor() and counts().
class SagaWorker {
public:
    /// Does not connect. @throws Error as check(const MessageSettings&) does
    explicit SagaWorker(SagaWorkerSettings settings);
    ~SagaWorker();
    SagaWorker(const SagaWorker&) = delete;
    SagaWorker& operator=(const SagaWorker&) = delete;

    /// Registers what executes tasks with this handler, and what reverts them. Call it before run(). Without a revert
    /// there is nothing to undo. A function may return any type that converts to nlohmann::json, or void.
    template <typename Execute>
    SagaWorker& on(const std::string& handler, Execute execute) {
        return add(handler, false, handler_of(std::move(execute)));
    }
    template <typename Execute, typename Revert>
    SagaWorker& on(const std::string& handler, Execute execute, Revert revert) {
        return on(handler, std::move(execute)).on_revert(handler, std::move(revert));
    }
    template <typename Revert>
    SagaWorker& on_revert(const std::string& handler, Revert revert) {
        return add(handler, true, handler_of(std::move(revert)));
    }

    /// Works until stop(), and returns when the worker has drained. Losses of the database are survived.
    /// @throws Error that no retry can cure
    void run();

    /// Begins the drain: nothing more is claimed, running handlers finish and are reported, and other claimed tasks are
    /// returned. Callable from any thread and from a signal handler, any number of times.
    void stop() noexcept;

    /// The UUID under which it owns tasks.
    const std::string& processor() const noexcept;

    WorkerCounts counts() const;

private:
    template <typename Function>
    static SagaHandler handler_of(Function function) {
        if constexpr (std::is_void_v<std::invoke_result_t<Function, const SagaTask&>>)
            return [function = std::move(function)](const SagaTask& task) {
                function(task);
                return nlohmann::json();
            };
        else
            return [function = std::move(function)](const SagaTask& task) { return nlohmann::json(function(task)); };
    }
    SagaWorker& add(const std::string& handler, bool reverts, SagaHandler function);

    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl
