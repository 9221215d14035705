// May throw. Waits for wake-ups of the database (pawl.sleep), where the binding, the caller's rights and the pooler
// allow it. Otherwise announce_wait() returns false, and polling is all there is.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <pawl/connection.hpp>

#include "signal_event.hpp"
#include "sql.hpp"

namespace pawl {

// One waiter belongs to one connection: make a new one after a reconnect. Not thread-safe.
class Waiter {
public:
    explicit Waiter(ConnectionSettings settings) : settings_(std::move(settings)) {}

    // Announces that this session waits for work in `relations` ("": for events of any). True if it has just begun to
    // wait: look for work once more, for what came before was not notified. Relations without wake-ups are skipped.
    // Does nothing (false) while it waits already, and after no relation could be waited for.
    bool announce_wait(pqxx::connection& connection, const std::vector<std::string>& relations) {
        if (waiting_ || !possible_ || settings_.pooler == Pooler::transaction) return false;
        for (const std::string& relation : relations) waiting_ |= announce(connection, relation);
        possible_ = waiting_;
        return waiting_;
    }
    bool announce_wait(pqxx::connection& connection, const std::string& relation) {
        return announce_wait(connection, std::vector<std::string>{relation});
    }

    // Why there are no wake-ups, once, if it is a pooler that the settings do not name; otherwise empty.
    std::string take_pooler_message() {
        if (!std::exchange(unknown_pooler_, false)) return {};
        return "a pooler is between this program and the server, and the setting pooler is \"none\": it polls instead "
               "of waiting for "
               "notifications; set pooler to \"session\" or \"transaction\", as the pooler is configured";
    }

    // Waits for a notification, for the event, or until the time has passed. True if there was a notification, also if
    // it came while a statement ran: then it is no longer in the socket. Throws ConnectionLost.
    bool wait(pqxx::connection& connection, const SignalEvent& event, std::chrono::milliseconds time) {
        return take_wake_up(connection) || (event.wait(connection.sock(), time) && take_wake_up(connection));
    }

    // The last wake-up was answered by work.
    void found_work() noexcept { in_vain_ = 0; }

    // The shortest wait for which an announcement pays: twice as long after each wake-up in vain, up to eight times. A
    // wake-up in vain costs the sessions that commit work, too.
    std::chrono::milliseconds min_wait(std::chrono::milliseconds first_wait) const noexcept {
        return first_wait * (1 << in_vain_);
    }

private:
    bool take_wake_up(pqxx::connection& connection) {
        if (sql::take_notifications(connection) == 0) return false;
        waiting_ = false;
        in_vain_ = std::min(in_vain_ + 1, 3);
        return true;
    }

    // pawl.sleep takes a lock for the session. If the session that answers is not the one of the login, an unknown
    // pooler is between, and the lock could stay with a session that other clients use: then the statement does not
    // call it.
    bool announce(pqxx::connection& connection, const std::string& relation) {
        if (unknown_pooler_) return false;
        try {
            const auto answer =
                sql::run_alone(connection,
                               "SELECT CASE WHEN $2::boolean OR pg_catalog.pg_backend_pid() = $3::integer "
                               "THEN coalesce(pawl.sleep($1::regclass), '') END",
                               relation.empty() ? nullptr : relation.c_str(), settings_.pooler == Pooler::session,
                               connection.backendpid());
            unknown_pooler_ = answer[0][0].is_null();
            return !unknown_pooler_;
        } catch (const ConnectionLost&) {
            throw;
        } catch (const Error&) {
            return false;  // no wake-ups on this binding, or no right to wait
        }
    }

    ConnectionSettings settings_;
    bool waiting_ = false;
    bool possible_ = true;
    bool unknown_pooler_ = false;
    int in_vain_ = 0;  // wake-ups in a row that brought no work
};

}  // namespace pawl
