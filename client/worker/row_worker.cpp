// May throw. Threads that claim, work and report, and one heart for all of them.
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

#include "json_text.hpp"
#include "pace.hpp"
#include "passing.hpp"
#include "signal_event.hpp"
#include "sleeper.hpp"
#include "sql.hpp"

namespace pawl {
namespace {

// A new one for each connection: what a claim took that nobody knows of has nobody who extends it.
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

}  // namespace

struct RowWorker::Impl {
    explicit Impl(RowWorkerSettings given) : settings(std::move(given)), stops(static_cast<std::size_t>(std::max(1, settings.threads))) {}

    void work(const SignalEvent& woken);
    bool turn(pqxx::connection& connection, const std::string& name);
    void handle(std::vector<Row>& rows) const;
    void report(pqxx::connection& connection, const std::string& name, const std::vector<Row>& rows);
    void beat(std::stop_token stop);
    void wait(std::chrono::milliseconds time);
    void rest(pqxx::connection& connection, Sleeper& sleeper, Pace& pace, const SignalEvent& woken);
    void stop() noexcept;
    void say(const std::string& message);

    RowWorkerSettings settings;
    std::vector<SignalEvent> stops;  // one a thread
    std::map<std::string, RowHandler> handlers;
    std::atomic<bool> stopping{false};
    std::atomic<std::uint64_t> claimed{0}, reported{0}, dropped{0};
    std::mutex mutex;
    std::condition_variable_any wake_up;
    std::set<std::string> alive;  // names whose leases are extended
    std::exception_ptr problem;
    std::mutex saying;
};

void RowWorker::Impl::say(const std::string& message) {
    if (!settings.on_message) return;
    const std::lock_guard lock(saying);
    settings.on_message(message);
}

void RowWorker::Impl::wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex);
    wake_up.wait_for(lock, time, [this] { return stopping.load(); });
}

void RowWorker::Impl::stop() noexcept {
    stopping = true;
    wake_up.notify_all();
    for (const SignalEvent& woken : stops) woken.set();
}

// Rows of one step and kind together.
void RowWorker::Impl::handle(std::vector<Row>& rows) const {
    std::map<std::pair<std::string, bool>, std::vector<Row>> steps;
    std::vector<Row> settled;  // what cannot be read has failed already
    for (Row& row : rows) (row.outcome.empty() ? steps[{row.step, row.check}] : settled).push_back(std::move(row));
    rows = std::move(settled);
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

void RowWorker::Impl::report(pqxx::connection& connection, const std::string& name, const std::vector<Row>& rows) {
    auto results = nlohmann::json::array();
    for (const Row& row : rows)
        results.push_back({{"operation", row.operation}, {"row_number", row.number}, {"step_index", row.step_index}, {"token", row.token},
                           {"result", row.outcome}, {"message", row.message}});
    const std::string text = json_text(results);
    for (Pace pace(settings.shortest_poll, std::chrono::seconds(1));;) {
        try {
            const auto counted = sql::run_alone(connection, "SELECT count(*) FILTER (WHERE r.ok) FROM pawl_bulk.report($1::jsonb, $2) r", text, name)[0][0].as<std::uint64_t>();
            reported += counted;
            dropped += rows.size() - counted;
            return;
        } catch (const ConnectionLost&) {
            throw;
        } catch (const Error& refused) {
            // a lease that ran out in the middle of it; once more, and that row is left out
            if (!passes(refused) && refused.sqlstate() != "PW005") throw;
            wait(pace.idle());
        }
    }
}

bool RowWorker::Impl::turn(pqxx::connection& connection, const std::string& name) {
    const std::string lease = std::to_string(settings.lease.count()) + " ms";
    std::vector<Row> rows = rows_of(sql::run_alone(connection, "SELECT * FROM pawl_bulk.claim($1, $2, $3::integer, $4::interval)", name,
                                                   settings.queue.empty() ? nullptr : settings.queue.c_str(), settings.batch, lease));
    if (rows.empty()) return false;
    claimed += rows.size();
    handle(rows);
    report(connection, name, rows);
    return true;
}

// Until there may be work, or the time has come to look.
void RowWorker::Impl::rest(pqxx::connection& connection, Sleeper& sleeper, Pace& pace, const SignalEvent& woken) {
    // going to sleep is a transaction too: not for the first nap
    if (settings.wake && pace.next() > sleeper.patience(settings.shortest_poll) && sleeper.doze(connection, "pawl_bulk.work")) return;
    if (sleeper.found_pooler()) say(polls_behind_pooler);
    if (woken.wait(connection.sock(), pace.idle()) && sleeper.woken(connection)) pace.found();
}

void RowWorker::Impl::work(const SignalEvent& woken) {
    Pace pace(settings.shortest_poll, settings.longest_poll);
    std::unique_ptr<pqxx::connection> connection;
    Sleeper sleeper;
    std::string name;
    const auto forget = [&] {
        const std::lock_guard lock(mutex);
        alive.erase(name);
    };
    while (!stopping) {
        try {
            if (!connection) {
                connection = connect(settings.connection);
                sleeper = Sleeper(settings.connection);
                name = random_name();
                const std::lock_guard lock(mutex);
                alive.insert(name);
                say("works as " + name);
            }
            if (turn(*connection, name)) {
                pace.found();
                sleeper.found();
            } else {
                rest(*connection, sleeper, pace, woken);
            }
        } catch (const Error& problem_now) {
            const bool lost = dynamic_cast<const ConnectionLost*>(&problem_now) != nullptr;
            if (!lost && !passes(problem_now)) {
                forget();
                throw;
            }
            say(std::string(lost ? "connection lost: " : "will try again: ") + problem_now.what());
            if (lost) {
                forget();
                connection.reset();
            }
            woken.wait(-1, std::max(pace.idle(), std::chrono::milliseconds(50)));
        }
    }
    forget();
}

void RowWorker::Impl::beat(std::stop_token stop) {
    std::unique_ptr<pqxx::connection> connection;
    const std::string lease = std::to_string(settings.lease.count()) + " ms";
    while (!stop.stop_requested()) {
        std::set<std::string> names;
        {
            std::unique_lock lock(mutex);
            wake_up.wait_for(lock, stop, std::max(settings.lease / 3, std::chrono::milliseconds(10)), [] { return false; });
            names = alive;
        }
        try {
            if (stop.stop_requested()) return;
            if (!connection) connection = connect(settings.connection);
            for (const std::string& name : names) sql::run_alone(*connection, "SELECT pawl.heartbeat('pawl_bulk.work', $1, $2::interval)", name, lease);
        } catch (const std::exception& problem_now) {
            say(std::string("no heartbeat: ") + problem_now.what());
            connection.reset();
        }
    }
}

RowWorker::RowWorker(RowWorkerSettings settings) : impl_(std::make_unique<Impl>(std::move(settings))) {}
RowWorker::~RowWorker() = default;

RowWorker& RowWorker::on(const std::string& step, RowHandler handler) {
    impl_->handlers[step] = std::move(handler);
    return *this;
}

void RowWorker::run() {
    {
        std::jthread heart([this](std::stop_token stop) { impl_->beat(stop); });
        std::vector<std::jthread> threads;
        for (const SignalEvent& woken : impl_->stops)
            threads.emplace_back([this, &woken] {
                try {
                    impl_->work(woken);
                } catch (...) {
                    {
                        const std::lock_guard lock(impl_->mutex);
                        impl_->problem = std::current_exception();
                    }
                    impl_->stop();
                }
            });
        threads.clear();  // waits for them
    }
    if (impl_->problem) std::rethrow_exception(impl_->problem);
}

void RowWorker::stop() noexcept { impl_->stop(); }

RowWorkerCounts RowWorker::counts() const { return {impl_->claimed, impl_->reported, impl_->dropped}; }

}  // namespace pawl
