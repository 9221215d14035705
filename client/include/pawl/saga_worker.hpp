// A worker for the tasks of flows: executes and reverts them, in the manner of pawl::Worker (leases, fences, batches, drain, loss of the database).
//
//     pawl::SagaWorker worker({.connection = {.target = "dbname=travel"}});
//     worker.on("book_flight", [](const pawl::SagaTask& task) { return book(task.argument<std::string>("traveller")); })
//           .on_revert("cancel_flight", [](const pawl::SagaTask& task) { cancel(task.done<Booking>()); });
//     const pawl::StopOnSignals signals([&] { worker.stop(); });
//     worker.run();
//
// A task is executed, and reverted, at least once; each result counts exactly once.
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

// A task in hand. The handler may use it from its own thread only, and until it returns.
struct SagaTask {
    std::string flow;
    int node = 0;
    std::string name;
    std::string handler;
    bool reverting = false;
    std::int64_t token = 0;      // the fencing token: who writes elsewhere on behalf of this task can be fenced by it too
    nlohmann::json arguments;    // by parameter
    nlohmann::json result;       // to be reverted: what execute returned, null where it failed
    nlohmann::json failure;      // to be reverted: how it failed, null where it did not
    nlohmann::json failures;     // to be reverted: what failed in this flow, by atom
    Trace trace;                 // the handler's span in the trace in which the flow began

    // Asks to stop when the task is no longer ours, or the worker's grace has run out.
    std::stop_token stop;

    // An argument as a type. Throws PermanentFailure where it is not there, or is something else.
    template <typename T>
    T argument(const std::string& parameter) const {
        return as<T>(arguments, parameter);
    }
    // What execute returned, as a type.
    template <typename T>
    T done() const {
        return as<T>({{"result", result}}, "result");
    }

    // How far it is, from 0 to 1. Sent now and then, the newest alone, by another thread; it costs the handler nothing.
    void progress(double part, const nlohmann::json& details = nullptr) const {
        if (tell) tell(part, details);
    }
    std::function<void(double, const nlohmann::json&)> tell = {};

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

// Returns the result. What it throws, unless it was told to stop, is the task's failure: its type is that of pawl::Failure, "permanent" of pawl::PermanentFailure, and
// the SQLSTATE is that of pawl::Error; retry controllers can have answers of their own to these.
using SagaHandler = std::function<nlohmann::json(const SagaTask&)>;

struct SagaWorkerSettings {
    ConnectionSettings connection = {};
    std::string queue = "default";
    int threads = 4;
    int batch = 0;                                  // tasks in hand at once; 0: twice the threads
    std::chrono::milliseconds lease{60'000};        // extended at every third of it
    std::chrono::milliseconds grace{30'000};        // how long stop() waits for handlers before it asks them to stop
    std::chrono::milliseconds shortest_poll{5};
    std::chrono::milliseconds longest_poll{1'000};
    std::chrono::milliseconds progress_interval{200};  // progress is sent no more often
    bool wake = true;                               // be notified of work; behind a pooler in transaction mode it polls
    MessageSettings messages = {};                  // who says that there is work: by default the database

    std::function<void(const SagaTask&)> on_dropped = {};            // of each result that came too late; on the worker's own thread
    std::function<void(const std::string&)> on_message = {};         // what a log would want to know; on any thread, one at a time
};

class SagaWorker {
public:
    explicit SagaWorker(SagaWorkerSettings settings);
    ~SagaWorker();
    SagaWorker(const SagaWorker&) = delete;
    SagaWorker& operator=(const SagaWorker&) = delete;

    // What executes tasks whose handler is so called, and what reverts them; before run() only. Without the second there is nothing to undo.
    // A handler may return any type that nlohmann-json can hold, or nothing.
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

    // Works until stop(), through losses of the database. Throws what can only be mended by hand.
    void run();

    // Nothing more is claimed, running handlers finish, the rest goes back. From any thread, any number of times.
    void stop() noexcept;

    // The uuid under which it owns tasks.
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
