// May throw. Connections of the API. Each request uses one for a single round trip, which takes the role of its token,
// calls the function of its route, and commits. Pool is thread-safe, Session is not.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include <pawl/connection.hpp>

#include "problem.hpp"

namespace pawl::api {

// The client of a request, as it has identified itself.
struct Caller {
    std::string kind = "bearer";  // or certificate
    std::string digest = {};      // SHA-256, 32 bytes
    std::string prefix = {};      // the beginning of the token: guesses of one token share it
    std::string address = {};     // its address, by trusted proxies
    std::string scope = "read";   // the scope that the route needs
    std::string trace = {};       // stored as the correlation id
};

// A call of a function of pawl_api. once: an idempotency key.
struct Call {
    std::string route;
    std::string arguments;                 // JSON
    std::optional<std::string> body = {};  // JSON; none if the route only reads
    std::optional<std::string> once = {};
    std::chrono::milliseconds patience = {};  // the longest silence of the server; 0: the session's
};

struct Outcome {
    bool good = false;
    std::optional<std::string> json = {};
    Problem problem = {};
    bool lost = false;          // the connection broke: the outcome of the transaction is unknown
    bool silent = false;        // lost because the server did not answer in time
    std::string database = {};  // the one of several that answered
};

// The parts of SessionRequired for the API.
inline constexpr const char* needs_session = "the HTTP API";
inline constexpr const char* session_hint = "Set api_database to the server itself, or to a pooler in session mode.";

using Result = std::unique_ptr<PGresult, void (*)(PGresult*)>;

// An error of PostgreSQL as a problem of the API.
Problem problem_of(const PGresult* result);

// After so long without a byte from the server the connection counts as broken. timeout: the server's
// statement_timeout.
constexpr std::chrono::milliseconds longest_silence(std::chrono::milliseconds timeout) {
    return 2 * timeout + std::chrono::seconds(5);
}

class Session {
public:
    // Throws ConnectionLost, or SessionRequired. timeout: the server's statement_timeout.
    Session(const ConnectionSettings& settings, std::chrono::milliseconds timeout);

    Outcome call(const Caller& caller, const Call& call);

    // From now on the connection counts as broken after this silence of the server; 0: the usual one.
    void limit_silence(std::chrono::milliseconds patience) noexcept {
        patience_ = patience.count() > 0 ? patience : longest_silence_;
    }

    // False if the server has closed the connection meanwhile.
    bool is_alive();

    // False if the connection broke, or the server was silent for too long.
    bool is_usable() const noexcept { return !silent_ && PQstatus(connection_.get()) == CONNECTION_OK; }

    // Plain commands, for requests of several round trips. The result may be an error.
    Result ask(const char* statement, int count, const char* const* values, const int* lengths, const int* formats);
    Result run(const char* statement, const std::vector<std::optional<std::string>>& parameters = {});

    // BEGIN and the first statement of a request. Returns an error as a problem.
    std::optional<Problem> begin(const Caller& caller);

private:
    static constexpr const char* begin_ = "begin";  // the prepared statement that begins a request

    bool prepare(const std::string& name, const std::string& statement, int parameters);
    bool send(const Caller& caller, const Call& call, const std::string& name);
    void read_answers(const std::vector<std::string>& learned, Outcome& outcome, bool& broken);
    void read_end(Outcome& outcome, bool& broken);
    Result next(bool& broken);
    bool wait();
    Result last();

    using Clock = std::chrono::steady_clock;
    std::unique_ptr<PGconn, void (*)(PGconn*)> connection_;
    std::chrono::milliseconds longest_silence_, patience_;  // the second: now
    bool silent_ = false;
    std::set<std::string> prepared_;
};

class Pool {
public:
    Pool(const ConnectionSettings& settings, std::size_t most, std::chrono::milliseconds timeout);

    // Errors are in the outcome. Repeats calls that failed by a conflict with another transaction.
    Outcome call(const Caller& caller, const Call& call);

    // Lends a connection to `question`, and returns its problem, or that of the pool.
    std::optional<Problem> lend(const std::function<std::optional<Problem>(Session&)>& question);

    // Nothing if the database answers in time; no patience: in the usual one.
    std::optional<Problem> check(std::chrono::milliseconds patience = {});

    // Whether a request would get a connection at once.
    bool has_room() const;

    // Closes the connections that no request uses.
    void end_idle();

    // Why the database did not answer the last time; nothing: it did.
    std::optional<Problem> trouble() const;

    struct Use {
        std::size_t idle, taken, max;
        std::uint64_t calls, repeated, timeouts;
    };
    Use use() const;

    const ConnectionSettings& settings() const noexcept { return settings_; }
    std::chrono::milliseconds timeout() const noexcept { return timeout_; }

private:
    bool wait_for_turn(std::chrono::milliseconds patience, std::unique_ptr<Session>& session);
    std::unique_ptr<Session> last_idle();
    std::unique_ptr<Session> take(Problem& problem, std::chrono::milliseconds patience = {});
    void give_back(std::unique_ptr<Session> session);
    void note(std::optional<Problem> trouble);

    ConnectionSettings settings_;
    std::size_t most_;
    std::size_t few_;  // connections that work while no request waits long
    std::chrono::milliseconds timeout_;
    using Clock = std::chrono::steady_clock;

    // Requests are served in order: a connection that is given back goes to the first of them.
    struct Waiter {
        Clock::time_point since = Clock::now();
        std::condition_variable come = {};
        bool served = false;
        std::unique_ptr<Session> session = nullptr;  // null: a new one is to be opened
    };

    mutable std::mutex mutex_;
    std::list<std::shared_ptr<Waiter>> waiting_;
    std::vector<std::unique_ptr<Session>> idle_;
    std::optional<Problem> trouble_;
    std::atomic<bool> in_trouble_ = false;  // so that the usual call needs no lock to find that there is none
    std::size_t taken_ = 0;                 // including those on the way to a waiting request
    std::uint64_t timeouts_ = 0;
    std::atomic<std::uint64_t> calls_ = 0, repeated_ = 0;
};

}  // namespace pawl::api
