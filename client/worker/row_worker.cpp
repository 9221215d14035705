// May throw. Threads that claim, handle and report rows, each with a loop and a session of its own, and one heartbeat
// for all of them.
#include <pawl/row_worker.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "heartbeat.hpp"
#include "json_text.hpp"
#include "session_loop.hpp"
#include "sql.hpp"
#include "temporary_error.hpp"

namespace pawl {
namespace {

using std::chrono::milliseconds;

// A new name for each session: rows of a claim whose answer was lost belong to a processor that no heartbeat extends.
std::string random_name() {
    std::random_device random;
    std::string name = "rows-";
    for (int i = 0; i < 24; ++i) name += "0123456789abcdef"[random() % 16];
    return name;
}

std::vector<Row> rows_of(const sql::Rows& claimed) {
    std::vector<Row> rows;
    rows.reserve(claimed.size());
    for (const auto& one : claimed) {
        Row row;
        row.operation = one["operation"].as<std::string>();
        row.number = one["row_number"].as<std::int64_t>();
        row.step_index = one["step_index"].as<int>();
        row.step = one["step_name"].as<std::string>();
        row.check = one["kind"].as<std::string>() == "check";
        row.token = one["token"].as<std::int64_t>();
        row.attempt = one["attempt"].as<int>();
        row.tries = one["tries"].as<int>();
        row.idempotency_key = one["idempotency_key"].as<std::string>();
        row.id = one["row_id"].is_null() ? "" : one["row_id"].as<std::string>();
        try {
            if (!one["data"].is_null()) row.data = one["data"].json();
            row.metadata = one["metadata"].json();
        } catch (const UnexpectedAnswer& problem) {
            row.fail(problem.what());
        }
        if (!one["traceparent"].is_null())
            row.trace = Trace{one["traceparent"].as<std::string>(), one["tracestate"].text_or_empty()}.child();
        rows.push_back(std::move(row));
    }
    return rows;
}

// The processors whose leases are extended. Thread-safe.
class Processors {
public:
    void add(const std::string& name) {
        const std::lock_guard lock(mutex_);
        names_.insert(name);
    }
    void remove(const std::string& name) {
        const std::lock_guard lock(mutex_);
        names_.erase(name);
    }
    std::set<std::string> all() const {
        const std::lock_guard lock(mutex_);
        return names_;
    }

private:
    mutable std::mutex mutex_;
    std::set<std::string> names_;
};

class ProcessorLeases final : public Leases {
public:
    ProcessorLeases(const Processors& processors, std::string lease)
        : processors_(processors), lease_(std::move(lease)) {}

    bool any() override { return !processors_.all().empty(); }
    void extend(pqxx::connection& connection) override {
        for (const std::string& name : processors_.all())
            sql::run_alone(connection, "SELECT pawl.heartbeat('pawl_bulk.work', $1, $2::interval)", name, lease_);
    }

private:
    const Processors& processors_;
    const std::string lease_;
};

}  // namespace

struct RowWorker::Impl {
    class Thread;

    explicit Impl(RowWorkerSettings given);

    void run();
    void stop() noexcept;
    void handle(std::vector<Row>& rows) const;
    void wait(milliseconds time);
    void log(const std::string& message);

    RowWorkerSettings settings;
    const std::string lease;
    std::map<std::string, RowHandler> handlers;
    std::atomic<bool> stopping{false};
    std::atomic<std::uint64_t> claimed{0}, reported{0}, dropped{0};
    Processors processors;
    std::mutex mutex;
    std::condition_variable stopped;
    std::exception_ptr problem;  // the first error that ended a thread
    std::mutex logging;
    std::vector<std::unique_ptr<Thread>> threads;
};

// One of the worker's threads: claims a batch, handles it, reports it.
class RowWorker::Impl::Thread final : public LoopSource {
public:
    explicit Thread(Impl& worker)
        : worker_(worker),
          loop_({.connection = worker.settings.connection,
                 .shortest_poll = worker.settings.shortest_poll,
                 .longest_poll = worker.settings.longest_poll,
                 .wake = worker.settings.wake},
                *this, [&worker](const std::string& message) { worker.log(message); }) {}
    ~Thread() override { worker_.processors.remove(name_); }

    void run() {
        loop_.run();
        worker_.processors.remove(name_);
    }
    void stop() noexcept { loop_.stop(); }

    void connected(pqxx::connection&) override {
        name_ = random_name();
        worker_.processors.add(name_);
        worker_.log("works as " + name_);
    }
    void disconnected() noexcept override { worker_.processors.remove(name_); }
    const std::string& relation() const noexcept override { return relation_; }

    Next turn(pqxx::connection& connection) override {
        const std::string& queue = worker_.settings.queue;
        std::vector<Row> rows = rows_of(
            sql::run_alone(connection, "SELECT * FROM pawl_bulk.claim($1, $2, $3::integer, $4::interval)", name_,
                           queue.empty() ? nullptr : queue.c_str(), worker_.settings.batch, worker_.lease));
        if (rows.empty()) return Next::later;
        worker_.claimed += rows.size();
        worker_.handle(rows);
        report(connection, rows);
        return Next::at_once;
    }

private:
    void report(pqxx::connection& connection, const std::vector<Row>& rows);

    Impl& worker_;
    const std::string relation_ = "pawl_bulk.work";
    std::string name_;
    SessionLoop loop_;
};

void RowWorker::Impl::Thread::report(pqxx::connection& connection, const std::vector<Row>& rows) {
    auto results = nlohmann::json::array();
    for (const Row& row : rows)
        results.push_back({{"operation", row.operation},
                           {"row_number", row.number},
                           {"step_index", row.step_index},
                           {"token", row.token},
                           {"result", row.outcome},
                           {"message", row.message}});
    const std::string text = json_text(results);
    for (PollInterval interval(worker_.settings.shortest_poll, std::chrono::seconds(1));;) {
        try {
            const auto accepted =
                sql::run_alone(connection, "SELECT count(*) FILTER (WHERE r.ok) FROM pawl_bulk.report($1::jsonb, $2) r",
                               text, name_)[0][0]
                    .as<std::uint64_t>();
            worker_.reported += accepted;
            worker_.dropped += rows.size() - accepted;
            return;
        } catch (const ConnectionLost&) {
            throw;
        } catch (const Error& rejection) {
            // PW005: a lease expired during the report; the next one leaves that row out
            if (!is_temporary(rejection) && rejection.sqlstate() != "PW005") throw;
            worker_.wait(interval.advance());
        }
    }
}

RowWorker::Impl::Impl(RowWorkerSettings given)
    : settings(std::move(given)), lease(std::to_string(settings.lease.count()) + " ms") {
    for (int i = 0; i < std::max(1, settings.threads); ++i) threads.push_back(std::make_unique<Thread>(*this));
}

void RowWorker::Impl::log(const std::string& message) {
    if (!settings.on_message) return;
    const std::lock_guard lock(logging);
    settings.on_message(message);
}

void RowWorker::Impl::wait(milliseconds time) {
    std::unique_lock lock(mutex);
    stopped.wait_for(lock, time, [this] { return stopping.load(); });
}

void RowWorker::Impl::stop() noexcept {
    stopping = true;
    stopped.notify_all();
    for (const auto& thread : threads) thread->stop();
}

// Calls the handler of each step with its rows, started ones and checked ones apart.
void RowWorker::Impl::handle(std::vector<Row>& rows) const {
    std::map<std::pair<std::string, bool>, std::vector<Row>> steps;
    std::vector<Row> failed;  // data that cannot be read
    for (Row& row : rows) (row.outcome.empty() ? steps[{row.step, row.check}] : failed).push_back(std::move(row));
    rows = std::move(failed);
    for (auto& [step, batch] : steps) {
        auto handler = handlers.find(step.first);
        if (handler == handlers.end()) handler = handlers.find("");
        std::string why = "worker has no handler \"" + step.first + "\"";
        if (handler != handlers.end()) {
            why.clear();
            try {
                handler->second(batch);
            } catch (const std::exception& caught) {
                why = caught.what();
            } catch (...) {
                why = "handler threw something that is no std::exception";
            }
        }
        for (Row& row : batch) {
            if (row.outcome.empty() && (!why.empty() || handler == handlers.end())) row.fail(why);
            if (row.outcome.empty()) row.outcome = row.check ? "pending" : "ok";
        }
        std::move(batch.begin(), batch.end(), std::back_inserter(rows));
    }
}

void RowWorker::Impl::run() {
    {
        const Heartbeat heartbeat(settings.connection, settings.lease,
                                  std::make_unique<ProcessorLeases>(processors, lease),
                                  [this](const std::string& message) { log(message); });
        std::vector<std::jthread> running;
        for (const auto& thread : threads)
            running.emplace_back([this, &thread] {
                try {
                    thread->run();
                } catch (...) {
                    {
                        const std::lock_guard lock(mutex);
                        if (!problem) problem = std::current_exception();
                    }
                    stop();
                }
            });
        running.clear();  // waits for them
    }
    if (problem) std::rethrow_exception(problem);
}

RowWorker::RowWorker(RowWorkerSettings settings) : impl_(std::make_unique<Impl>(std::move(settings))) {}
RowWorker::~RowWorker() = default;

RowWorker& RowWorker::on(const std::string& step, RowHandler handler) {
    impl_->handlers[step] = std::move(handler);
    return *this;
}

void RowWorker::run() {
    impl_->run();
}

void RowWorker::stop() noexcept {
    impl_->stop();
}

RowWorkerCounts RowWorker::counts() const {
    return {impl_->claimed, impl_->reported, impl_->dropped};
}

}  // namespace pawl
