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
#include "run_handler.hpp"
#include "session_loop.hpp"
#include "sql.hpp"
#include "temporary_error.hpp"
#include "utf8.hpp"

namespace pawl {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

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

// The sessions by their processors' names, whose leases are extended, and the batch that each of them handles.
// Thread-safe.
class Batches {
public:
    struct Batch {
        std::stop_source stop{std::nostopstate};
        Clock::time_point claimed_at;
    };

    void add(const std::string& processor) {
        const std::lock_guard lock(mutex_);
        batches_.emplace(processor, Batch{});
    }
    void remove(const std::string& processor) {
        const std::lock_guard lock(mutex_);
        batches_.erase(processor);
    }
    std::stop_token begin(const std::string& processor, Clock::time_point claimed_at) {
        const std::lock_guard lock(mutex_);
        Batch& batch = batches_[processor];
        batch = {std::stop_source(), claimed_at};
        if (stopped_) batch.stop.request_stop();
        return batch.stop.get_token();
    }
    void end(const std::string& processor) {
        const std::lock_guard lock(mutex_);
        batches_[processor] = {};
    }
    // Asks all handlers to stop, now and later.
    void stop() {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        for (auto& [processor, batch] : batches_) batch.stop.request_stop();
    }
    std::map<std::string, Batch> all() const {
        const std::lock_guard lock(mutex_);
        return batches_;
    }

private:
    mutable std::mutex mutex_;
    std::map<std::string, Batch> batches_;
    bool stopped_ = false;
};

// Extends the leases of all sessions, and asks handlers to stop whose leases are lost.
class BatchLeases final : public Leases {
public:
    BatchLeases(const Batches& batches, milliseconds lease)
        : batches_(batches), lease_(lease), lease_text_(std::to_string(lease.count()) + " ms") {}

    bool any() override {
        known_ = batches_.all();
        began_ = Clock::now();
        if (known_.empty()) extended_at_ = began_;
        return !known_.empty();
    }
    void extend(pqxx::connection& connection) override {
        for (auto& [processor, batch] : known_) {
            const auto owned = sql::run_alone(connection, "SELECT pawl.heartbeat('pawl_bulk.work', $1, $2::interval)",
                                              processor, lease_text_)[0][0]
                                   .as<std::int64_t>();
            // a row that another session is changing is not counted
            if (owned == 0 && batch.stop.stop_possible() &&
                sql::run_alone(connection, "SELECT FROM pawl_bulk.work w WHERE w.worker = $1 LIMIT 1", processor)
                    .empty())
                batch.stop.request_stop();
        }
        extended_at_ = began_;
    }
    // What was claimed a lease ago has expired; what was claimed since has a lease of its own.
    void failed() override {
        const auto expired = Clock::now() - lease_;
        if (extended_at_ >= expired) return;
        for (auto& [processor, batch] : batches_.all())
            if (batch.claimed_at < expired) batch.stop.request_stop();
    }

private:
    const Batches& batches_;
    const milliseconds lease_;
    const std::string lease_text_;
    std::map<std::string, Batches::Batch> known_;
    Clock::time_point began_ = Clock::now(), extended_at_ = Clock::now();
};

}  // namespace

struct RowWorker::Impl {
    class Thread;

    explicit Impl(RowWorkerSettings given);

    void run();
    void stop() noexcept;
    void handle(std::vector<Row>& rows, const std::stop_token& asked) const;
    void wait(milliseconds time);
    void log(const std::string& message);

    RowWorkerSettings settings;
    const std::string lease;
    std::map<std::string, RowHandler> handlers;
    std::atomic<bool> stopping{false};
    std::atomic<std::uint64_t> claimed{0}, reported{0}, dropped{0}, abandoned{0};
    Batches batches;
    std::mutex mutex;
    std::condition_variable changed;  // stopping, running
    std::size_t running = 0;          // threads
    std::exception_ptr problem;       // the first error that ended a thread
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
    ~Thread() override { worker_.batches.remove(name_); }

    void run() {
        loop_.run();
        worker_.batches.remove(name_);
    }
    void stop() noexcept { loop_.stop(); }

    void connected(pqxx::connection&) override {
        name_ = random_name();
        worker_.batches.add(name_);
        worker_.log("works as " + name_);
    }
    void disconnected() noexcept override { worker_.batches.remove(name_); }
    const std::string& relation() const noexcept override { return relation_; }

    Next turn(pqxx::connection& connection) override {
        const std::string& queue = worker_.settings.queue;
        const auto asked_at = Clock::now();
        std::vector<Row> rows = rows_of(
            sql::run_alone(connection, "SELECT * FROM pawl_bulk.claim($1, $2, $3::integer, $4::interval)", name_,
                           queue.empty() ? nullptr : queue.c_str(), worker_.settings.batch, worker_.lease));
        if (rows.empty()) return Next::later;
        const std::size_t claimed = rows.size();
        worker_.claimed += claimed;
        worker_.handle(rows, worker_.batches.begin(name_, asked_at));
        worker_.batches.end(name_);
        std::erase_if(rows, [](const Row& row) { return row.outcome.empty(); });
        if (!rows.empty()) report(connection, rows);
        // what a handler has given back, or taken out of its batch; of a lost lease, another worker has them already
        if (rows.size() < claimed)
            worker_.abandoned +=
                sql::run_alone(connection, "SELECT pawl.abandon($1::regclass, $2)", relation_, name_)[0][0]
                    .as<std::uint64_t>();
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
    const std::size_t longest = std::min(longest_text, longest_json / 2 / rows.size());
    auto results = nlohmann::json::array();
    for (const Row& row : rows)
        results.push_back({{"operation", storable(row.operation, longest)},
                           {"row_number", row.number},
                           {"step_index", row.step_index},
                           {"token", row.token},
                           {"result", storable(row.outcome, longest)},
                           {"message", storable(row.message, longest)}});
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
    const std::lock_guard lock(logging);
    call_back(settings.on_message, message);
}

void RowWorker::Impl::wait(milliseconds time) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, time, [this] { return stopping.load(); });
}

void RowWorker::Impl::stop() noexcept {
    {
        const std::lock_guard lock(mutex);
        stopping = true;
    }
    changed.notify_all();
    for (const auto& thread : threads) thread->stop();
}

// Calls the handler of each step with its rows, started ones and checked ones apart. Rows that a handler gives back
// have no outcome.
void RowWorker::Impl::handle(std::vector<Row>& rows, const std::stop_token& asked) const {
    std::map<std::pair<std::string, bool>, std::vector<Row>> steps;
    std::vector<Row> failed;  // data that cannot be read
    for (Row& row : rows) row.stop = asked;
    for (Row& row : rows) (row.outcome.empty() ? steps[{row.step, row.check}] : failed).push_back(std::move(row));
    rows = std::move(failed);
    for (auto& [step, batch] : steps) {
        auto handler = handlers.find(step.first);
        if (handler == handlers.end()) handler = handlers.find("");
        bool returned = false;
        std::string why;
        try {
            if (handler == handlers.end()) throw std::runtime_error("worker has no handler \"" + step.first + "\"");
            if (!asked.stop_requested()) {
                handler->second(batch);
                returned = true;
            }
        } catch (...) {
            why = text_of_exception();
        }
        for (Row& row : batch) {
            if (!row.outcome.empty()) continue;
            if (returned)
                row.outcome = row.check ? "pending" : "ok";
            else if (!asked.stop_requested())
                row.fail(why);
        }
        std::move(batch.begin(), batch.end(), std::back_inserter(rows));
    }
}

void RowWorker::Impl::run() {
    const Heartbeat heartbeat(settings.connection, settings.lease,
                              std::make_unique<BatchLeases>(batches, settings.lease),
                              [this](const std::string& message) { log(message); });
    running = threads.size();
    std::vector<std::jthread> pool;
    for (const auto& thread : threads)
        pool.emplace_back([this, &thread] {
            std::exception_ptr failure;
            try {
                thread->run();
            } catch (...) {
                failure = std::current_exception();
            }
            if (failure) stop();
            const std::lock_guard lock(mutex);
            if (failure && !problem) problem = failure;
            --running;
            changed.notify_all();
        });
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stopping || running == 0; });
    if (!changed.wait_for(lock, settings.grace, [this] { return running == 0; })) batches.stop();
    lock.unlock();
    pool.clear();  // waits for them
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
    return {impl_->claimed, impl_->reported, impl_->dropped, impl_->abandoned};
}

}  // namespace pawl
