// May throw (out of memory).
#include "pool.hpp"

#include <algorithm>
#include <random>
#include <thread>

#include <pawl/errors.hpp>

namespace pawl::api {
namespace {

constexpr std::chrono::milliseconds longest_wait{5'000};  // for a connection
constexpr auto short_wait = std::chrono::milliseconds(50);
constexpr int max_attempts = 4;

// Waits a random time, so that transactions that met once do not meet again.
void wait_a_moment(int attempt) {
    thread_local std::minstd_rand random{std::random_device{}()};
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int>(1, 5 << attempt)(random)));
}

}  // namespace

Pool::Pool(const ConnectionSettings& settings, std::size_t most, std::chrono::milliseconds timeout)
    : settings_(settings), most_(most), few_((most + 1) / 2), timeout_(timeout) {}

// More requests at a time than the server has processors make all of them slow. So half of the connections work, and
// the others only once a request has waited longer than a burst of quick requests takes, which means that the first
// half is busy with slow ones.
bool Pool::wait_for_turn(std::chrono::milliseconds patience, std::unique_ptr<Session>& session) {
    std::unique_lock lock(mutex_);
    if (taken_ < few_) {
        ++taken_;
        session = last_idle();
        return true;
    }
    const auto self = std::make_shared<Waiter>();
    const auto place = waiting_.insert(waiting_.end(), self);
    const auto served = [&] { return self->served; };
    bool mine = self->come.wait_for(lock, short_wait, served);
    if (!mine && taken_ < most_) {
        ++taken_;
        session = last_idle();
        mine = true;
    }
    mine = mine || self->come.wait_until(lock, self->since + patience, served);
    if (self->served) session = std::move(self->session);
    waiting_.erase(place);
    if (!mine) ++timeouts_;
    return mine;
}

std::unique_ptr<Session> Pool::take(Problem& problem, std::chrono::milliseconds patience) {
    std::unique_ptr<Session> session;
    if (!wait_for_turn(patience.count() > 0 ? std::min(patience, longest_wait) : longest_wait, session)) {
        problem = {.status = 503, .detail = "all connections to the database are in use", .sqlstate = "53300"};
        return nullptr;
    }
    const auto another = [&] {
        const std::lock_guard lock(mutex_);
        return last_idle();
    };
    while (session && !session->is_alive()) session = another();
    if (session) return session;
    try {
        return std::make_unique<Session>(settings_, timeout_);
    } catch (const SessionRequired& between) {
        problem = {.status = 503,
                   .detail = "a pooler that the settings do not name is between pawld and the database",
                   .sqlstate = between.sqlstate()};
        note(problem);
        give_back(nullptr);
        return nullptr;
    } catch (const pawl::Error&) {
        problem = problem_of(nullptr);
        note(problem);
        give_back(nullptr);
        return nullptr;
    }
}

// Null: there is none. The caller has the lock.
std::unique_ptr<Session> Pool::last_idle() {
    if (idle_.empty()) return nullptr;
    std::unique_ptr<Session> session = std::move(idle_.back());
    idle_.pop_back();
    return session;
}

// The session goes from hand to hand: a request that waits takes the lock only once.
void Pool::give_back(std::unique_ptr<Session> session) {
    std::unique_lock lock(mutex_);
    const auto next =
        std::find_if(waiting_.begin(), waiting_.end(), [](const auto& waiter) { return !waiter->served; });
    if (next == waiting_.end() || (taken_ > few_ && Clock::now() - (*next)->since < short_wait)) {
        --taken_;
        if (session) idle_.push_back(std::move(session));
        return;
    }
    const std::shared_ptr<Waiter> served = *next;
    served->served = true;
    served->session = session ? std::move(session) : last_idle();
    lock.unlock();  // it would wake up only to wait for the lock
    served->come.notify_one();
}

void Pool::note(std::optional<Problem> trouble) {
    if (!trouble && !in_trouble_) return;
    const std::lock_guard lock(mutex_);
    in_trouble_ = trouble.has_value();
    trouble_ = std::move(trouble);
}

std::optional<Problem> Pool::trouble() const {
    const std::lock_guard lock(mutex_);
    return trouble_;
}

Outcome Pool::call(const Caller& caller, const Call& call) {
    Outcome outcome;
    for (int attempt = 1;; ++attempt) {
        std::unique_ptr<Session> session = take(outcome.problem, call.patience);
        if (!session) return outcome;
        outcome = session->call(caller, call);
        note(outcome.lost ? std::optional(outcome.problem) : std::nullopt);
        give_back(outcome.lost ? nullptr : std::move(session));
        const bool again = outcome.lost ? !call.body && !outcome.silent
                                        : !outcome.good && is_worth_repeating(outcome.problem.sqlstate);
        ++calls_;
        if (!again || attempt == max_attempts) break;
        ++repeated_;
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
    std::optional<Problem> said;
    try {
        said = question(*session);
    } catch (...) {
        give_back(nullptr);
        throw;
    }
    const bool usable = session->is_usable();
    note(usable ? std::nullopt : std::optional(problem_of(nullptr)));
    give_back(usable ? std::move(session) : nullptr);
    return said;
}

std::optional<Problem> Pool::check(std::chrono::milliseconds patience) {
    return lend([&](Session& session) -> std::optional<Problem> {
        session.limit_silence(patience);
        const Result result = session.run("SELECT 'pawl_api'::regnamespace");
        session.limit_silence({});
        if (PQresultStatus(result.get()) == PGRES_TUPLES_OK) return std::nullopt;
        return problem_of(result.get());
    });
}

bool Pool::has_room() const {
    const std::lock_guard lock(mutex_);
    return taken_ < few_;
}

void Pool::end_idle() {
    std::vector<std::unique_ptr<Session>> ended;
    const std::lock_guard lock(mutex_);
    ended.swap(idle_);
}

Pool::Use Pool::use() const {
    const std::lock_guard lock(mutex_);
    return {idle_.size(), taken_, most_, calls_, repeated_, timeouts_};
}

}  // namespace pawl::api
