// May throw (out of memory).
#include "pool.hpp"

#include <random>
#include <thread>

#include <pawl/errors.hpp>

namespace pawl::api {
namespace {

constexpr auto longest_wait = std::chrono::seconds(5);  // for a connection
constexpr int most_tries = 4;

// Who lost waits a moment, each a different one.
void wait_a_moment(int attempt) {
    thread_local std::minstd_rand random{std::random_device{}()};
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int>(1, 5 << attempt)(random)));
}

}  // namespace

Pool::Pool(const ConnectionSettings& settings, std::size_t most, std::chrono::milliseconds timeout) : settings_(settings), most_(most), timeout_(timeout) {}

std::unique_ptr<Session> Pool::take(Problem& problem) {
    {
        std::unique_lock lock(mutex_);
        if (!come_.wait_for(lock, longest_wait, [this] { return taken_ < most_; })) {
            ++refused_;
            problem = {.status = 503, .detail = "all connections to the database are taken", .sqlstate = "53300"};
            return nullptr;
        }
        ++taken_;
        while (!idle_.empty()) {
            std::unique_ptr<Session> session = std::move(idle_.back());
            idle_.pop_back();
            if (session->is_alive()) return session;
        }
    }
    try {
        return std::make_unique<Session>(settings_, timeout_);
    } catch (const pawl::Error&) {
        problem = problem_of(nullptr);
        give_back(nullptr);
        return nullptr;
    }
}

void Pool::give_back(std::unique_ptr<Session> session) {
    {
        const std::lock_guard lock(mutex_);
        --taken_;
        if (session) idle_.push_back(std::move(session));
    }
    come_.notify_one();
}

Outcome Pool::call(const Caller& caller, const Call& call) {
    Outcome outcome;
    for (int attempt = 1;; ++attempt) {
        std::unique_ptr<Session> session = take(outcome.problem);
        if (!session) return outcome;
        outcome = session->call(caller, call);
        give_back(outcome.lost ? nullptr : std::move(session));
        const bool again = outcome.lost ? !call.body : !outcome.good && is_worth_repeating(outcome.problem.sqlstate);
        {
            const std::lock_guard lock(mutex_);
            ++calls_;
            if (!again || attempt == most_tries) break;
            ++repeated_;
        }
        wait_a_moment(attempt);
    }
    if (outcome.lost && call.body)
        outcome.problem.hint = "ask what became of it, or send it again with the same Idempotency-Key";
    return outcome;
}

std::optional<Problem> Pool::lend(const std::function<std::optional<Problem>(Session&)>& question) {
    Problem problem;
    std::unique_ptr<Session> session = take(problem);
    if (!session) return problem;
    auto said = question(*session);
    give_back(PQstatus(session->raw()) == CONNECTION_OK ? std::move(session) : nullptr);
    return said;
}

std::optional<Problem> Pool::check() {
    return lend([](Session& session) -> std::optional<Problem> {
        const Result result = session.run("SELECT 'pawl_api'::regnamespace");
        if (PQresultStatus(result.get()) == PGRES_TUPLES_OK) return std::nullopt;
        return problem_of(result.get());
    });
}

Pool::Use Pool::use() const {
    const std::lock_guard lock(mutex_);
    return {idle_.size(), taken_, most_, calls_, repeated_, refused_};
}

}  // namespace pawl::api
