// May throw. The loop of every worker and conductor: one thread, one session, one source of work. It connects, takes
// turns while there is work, waits when there is none, and survives losses of the session.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <pqxx/pqxx>

#include <pawl/connection.hpp>
#include <pawl/errors.hpp>

#include "poll_interval.hpp"
#include "signal_event.hpp"
#include "waiter.hpp"

namespace pawl {

// What a turn says about the next one.
enum class Next {
    at_once,  // there is more to do
    soon,     // work was found, and more is likely shortly
    later,    // there was nothing to do
};

// What the loop works on. Called by the loop's thread only; methods with a connection throw pawl::Error.
class LoopSource {
public:
    virtual ~LoopSource() = default;

    // Called once for each new session, before its first turn.
    virtual void connected(pqxx::connection& connection) = 0;

    // Does what there is to do: reports, claims, follows up.
    virtual Next turn(pqxx::connection& connection) = 0;

    // The relation whose wake-ups announce new work.
    virtual const std::string& relation() const noexcept = 0;

    // Whether a wake-up could be answered now; false while there is no room for more work.
    virtual bool can_claim() const { return true; }

    // How long to wait without polling, where messages announce work; nothing: poll.
    virtual std::optional<std::chrono::milliseconds> wait_for_messages() { return std::nullopt; }

    // True if the loop shall end by itself.
    virtual bool finished() const { return false; }

    // Called when the session is lost.
    virtual void disconnected() noexcept {}
};

struct LoopSettings {
    ConnectionSettings connection;
    std::chrono::milliseconds shortest_poll;
    std::chrono::milliseconds longest_poll;
    bool wake = true;
    // Where to connect, if that can change, and what to do when a database says that the work is elsewhere (PW009).
    std::function<ConnectionSettings()> find_connection = {};
    std::function<void(pqxx::connection&)> moved = {};
    bool results_release_work = false;  // poll after a fifth of shortest_poll when a turn has found work
};

class SessionLoop {
public:
    using Log = std::function<void(const std::string&)>;

    // `source` and what `log` refers to must outlive the loop.
    SessionLoop(LoopSettings settings, LoopSource& source, Log log);

    // Takes turns until stop(), or until the source has finished. Throws errors that no retry cures.
    void run();

    // Callable from any thread and from a signal handler.
    void stop() noexcept;
    bool stopping() const noexcept { return stopping_; }

    // Setting it ends a wait; for other threads that have something for the source.
    const SignalEvent& wake_up() const noexcept { return wake_up_; }

    // The session; connects if there is none. Throws ConnectionLost.
    pqxx::connection& session();

    // To be called in a catch block: drops a lost session, and one of a database that the work has left; returns for
    // errors that a retry may cure, and rethrows others. True if the session was dropped.
    bool survive(const Error& error);

    // Waits after an error, longer each time.
    void wait_after_error(std::chrono::milliseconds shortest);

private:
    void wait_for_work();

    const LoopSettings settings_;
    LoopSource& source_;
    const Log log_;
    SignalEvent wake_up_;
    std::atomic<bool> stopping_{false};
    PollInterval interval_;
    Waiter waiter_;
    std::unique_ptr<pqxx::connection> connection_;
    bool is_begun_ = false;  // the source has seen the connection
};

}  // namespace pawl
