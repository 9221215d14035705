// May throw. Handlers of tasks on a pawl::Worker, and a thread that reports their progress.
#include <pawl/saga_worker.hpp>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "sql.hpp"
#include "work_source.hpp"

namespace pawl {
namespace {

SagaTask task_of(const Job& job) {
    SagaTask task;
    task.flow = job.task;
    task.node = job.options.at("node").get<int>();
    task.name = job.name;
    task.handler = job.handler;
    task.reverting = job.options.at("action") == "revert";
    task.token = job.token;
    task.arguments = job.context;
    task.result = job.inputs.at("result");
    task.failure = job.inputs.at("failure");
    task.failures = job.inputs.at("failures");
    task.trace = job.trace;
    task.stop = job.stop;
    return task;
}

WorkerSettings worker_settings(const SagaWorkerSettings& given) {
    WorkerSettings settings;
    settings.connection = given.connection;
    settings.queue = given.queue;
    settings.threads = given.threads;
    settings.batch = given.batch;
    settings.lease = given.lease;
    settings.grace = given.grace;
    settings.shortest_poll = given.shortest_poll;
    settings.longest_poll = given.longest_poll;
    settings.wake = given.wake;
    settings.messages = given.messages;
    settings.orchestrate = false;
    if (given.on_dropped)
        settings.on_dropped = [on_dropped = given.on_dropped](const Job& job) { on_dropped(task_of(job)); };
    settings.on_message = given.on_message;
    return settings;
}

// Sends the newest progress of each task. Progress that cannot be sent is dropped: the next one replaces it.
class ProgressReporter {
public:
    ProgressReporter(const SagaWorkerSettings& settings, const std::string& processor)
        : settings_(settings), processor_(processor), thread_([this](std::stop_token stop) { run(stop); }) {}

    void note(const SagaTask& task, double fraction, const nlohmann::json& details) {
        {
            const std::lock_guard lock(mutex_);
            progress_[{task.flow, task.node}] = {task.token, fraction, details};
        }
        changed_.notify_one();
    }

private:
    struct Progress {
        std::int64_t token = 0;
        double fraction = 0;
        nlohmann::json details;
    };
    using ProgressOfTasks = std::map<std::pair<std::string, int>, Progress>;

    void run(std::stop_token stop) {
        std::unique_ptr<pqxx::connection> connection;
        std::mutex pausing;
        while (!stop.stop_requested()) {
            ProgressOfTasks all;
            {
                std::unique_lock lock(mutex_);
                if (!changed_.wait(lock, stop, [&] { return !progress_.empty(); })) return;
                all.swap(progress_);
            }
            send(connection, all);
            std::unique_lock lock(pausing);
            pause_.wait_for(lock, stop, settings_.progress_interval, [] { return false; });
        }
    }

    void send(std::unique_ptr<pqxx::connection>& connection, const ProgressOfTasks& all) const {
        try {
            if (!connection) connection = connect(settings_.connection);
        } catch (const std::exception&) {
            return;
        }
        for (const auto& [task, progress] : all) {
            try {
                const std::string details = json_text(progress.details);
                sql::run_alone(
                    *connection,
                    "SELECT pawl_saga.progress($1::uuid, $2::integer, $3::bigint, $4::double precision, $5::jsonb, $6)",
                    task.first, task.second, progress.token, progress.fraction,
                    progress.details.is_null() ? nullptr : details.c_str(), processor_);
            } catch (const ConnectionLost&) {
                connection.reset();
                return;
            } catch (const std::exception&) {
                // the task has ended, or another worker owns it
            }
        }
    }

    const SagaWorkerSettings& settings_;
    const std::string processor_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::condition_variable_any pause_;
    ProgressOfTasks progress_;
    std::jthread thread_;
};

}  // namespace

struct SagaWorker::Impl {
    explicit Impl(SagaWorkerSettings given)
        : settings(std::move(given)), worker(worker_settings(settings), make_saga_source) {
        worker.on("", [this](const Job& job) { return handle(job); });
    }

    nlohmann::json handle(const Job& job) {
        SagaTask task = task_of(job);
        task.report_progress = [this, &task](double fraction, const nlohmann::json& details) {
            if (reporter) reporter->note(task, fraction, details);
        };
        const auto& known = task.reverting ? reverts : executes;
        if (const auto handler = known.find(task.handler); handler != known.end()) return handler->second(task);
        // a handler without a revert has nothing to undo
        if (task.reverting && executes.contains(task.handler)) return nullptr;
        throw std::runtime_error("worker has no handler \"" + task.handler + "\" to " +
                                 (task.reverting ? "revert" : "execute") + " with");
    }

    SagaWorkerSettings settings;
    std::map<std::string, SagaHandler> executes, reverts;
    std::unique_ptr<ProgressReporter> reporter;
    Worker worker;
};

SagaWorker::SagaWorker(SagaWorkerSettings settings) : impl_(std::make_unique<Impl>(std::move(settings))) {}
SagaWorker::~SagaWorker() = default;

SagaWorker& SagaWorker::add(const std::string& handler, bool reverts, SagaHandler function) {
    (reverts ? impl_->reverts : impl_->executes)[handler] = std::move(function);
    return *this;
}

void SagaWorker::run() {
    impl_->reporter = std::make_unique<ProgressReporter>(impl_->settings, impl_->worker.processor());
    impl_->worker.run();
    impl_->reporter.reset();
}

void SagaWorker::stop() noexcept {
    impl_->worker.stop();
}
const std::string& SagaWorker::processor() const noexcept {
    return impl_->worker.processor();
}
WorkerCounts SagaWorker::counts() const {
    return impl_->worker.counts();
}

}  // namespace pawl
