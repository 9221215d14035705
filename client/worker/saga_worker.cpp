// May throw. Handlers of tasks on a pawl::Worker, and a thread that tells how far they are.
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
    settings.name_space = given.queue;
    settings.threads = given.threads;
    settings.batch = given.batch;
    settings.lease = given.lease;
    settings.grace = given.grace;
    settings.shortest_poll = given.shortest_poll;
    settings.longest_poll = given.longest_poll;
    settings.wake = given.wake;
    settings.messages = given.messages;
    settings.orchestrate = false;
    if (given.on_dropped) settings.on_dropped = [told = given.on_dropped](const Job& job) { told(task_of(job)); };
    settings.on_message = given.on_message;
    return settings;
}

// Sends the newest word of each task. Progress that cannot be sent is forgotten: the next word is a better one.
class ProgressTeller {
public:
    ProgressTeller(const SagaWorkerSettings& settings, const std::string& processor)
        : settings_(settings), processor_(processor), thread_([this](std::stop_token stop) { run(stop); }) {}

    void note(const SagaTask& task, double part, const nlohmann::json& details) {
        {
            const std::lock_guard lock(mutex_);
            words_[{task.flow, task.node}] = {task.token, part, details};
        }
        changed_.notify_one();
    }

private:
    struct Word {
        std::int64_t token = 0;
        double part = 0;
        nlohmann::json details;
    };
    using Words = std::map<std::pair<std::string, int>, Word>;

    void run(std::stop_token stop) {
        std::unique_ptr<pqxx::connection> connection;
        std::mutex pausing;
        while (!stop.stop_requested()) {
            Words words;
            {
                std::unique_lock lock(mutex_);
                if (!changed_.wait(lock, stop, [&] { return !words_.empty(); })) return;
                words.swap(words_);
            }
            send(connection, words);
            std::unique_lock lock(pausing);
            pause_.wait_for(lock, stop, settings_.progress_interval, [] { return false; });
        }
    }

    void send(std::unique_ptr<pqxx::connection>& connection, const Words& words) const {
        try {
            if (!connection) connection = connect(settings_.connection);
        } catch (const std::exception&) {
            return;
        }
        for (const auto& [task, word] : words) {
            try {
                const std::string details = json_text(word.details);
                sql::run_alone(*connection, "SELECT pawl_saga.progress($1::uuid, $2::integer, $3::bigint, $4::double precision, $5::jsonb, $6)", task.first, task.second,
                               word.token, word.part, word.details.is_null() ? nullptr : details.c_str(), processor_);
            } catch (const ConnectionLost&) {
                connection.reset();
                return;
            } catch (const std::exception&) {
                // finished, or another's by now
            }
        }
    }

    const SagaWorkerSettings& settings_;
    const std::string processor_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::condition_variable_any pause_;
    Words words_;
    std::jthread thread_;
};

}  // namespace

struct SagaWorker::Impl {
    explicit Impl(SagaWorkerSettings given) : settings(std::move(given)), worker(worker_settings(settings), make_saga_source) {
        worker.on("", [this](const Job& job) { return handle(job); });
    }

    nlohmann::json handle(const Job& job) {
        SagaTask task = task_of(job);
        task.tell = [this, &task](double part, const nlohmann::json& details) {
            if (teller) teller->note(task, part, details);
        };
        const auto& known = task.reverting ? reverts : executes;
        if (const auto handler = known.find(task.handler); handler != known.end()) return handler->second(task);
        // whose handler has no revert has nothing to undo
        if (task.reverting && executes.contains(task.handler)) return nullptr;
        throw std::runtime_error("worker has no handler \"" + task.handler + "\" to " + (task.reverting ? "revert" : "execute") + " with");
    }

    SagaWorkerSettings settings;
    std::map<std::string, SagaHandler> executes, reverts;
    std::unique_ptr<ProgressTeller> teller;
    Worker worker;
};

SagaWorker::SagaWorker(SagaWorkerSettings settings) : impl_(std::make_unique<Impl>(std::move(settings))) {}
SagaWorker::~SagaWorker() = default;

SagaWorker& SagaWorker::add(const std::string& handler, bool reverts, SagaHandler function) {
    (reverts ? impl_->reverts : impl_->executes)[handler] = std::move(function);
    return *this;
}

void SagaWorker::run() {
    impl_->teller = std::make_unique<ProgressTeller>(impl_->settings, impl_->worker.processor());
    impl_->worker.run();
    impl_->teller.reset();
}

void SagaWorker::stop() noexcept { impl_->worker.stop(); }
const std::string& SagaWorker::processor() const noexcept { return impl_->worker.processor(); }
WorkerCounts SagaWorker::counts() const { return impl_->worker.counts(); }

}  // namespace pawl
