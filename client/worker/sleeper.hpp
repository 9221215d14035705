// May throw. Waiting to be woken: pawl.sleep, where the lifecycle and the connection allow it; otherwise polling is all
// there is. Behind a pooler in transaction mode pawl.sleep would leave its lock with a session that others use.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <pawl/connection.hpp>

#include "pooler.hpp"
#include "sql.hpp"

namespace pawl {

class Sleeper {
public:
    // Of a connection that is new.
    explicit Sleeper(ConnectionSettings settings = {}) : settings_(std::move(settings)) {}

    // Announces that this session goes to sleep; true if it has just begun to, so that work must be looked for once more. Relations
    // that wake nobody are left out; none is the channel of events.
    bool doze(pqxx::connection& connection, const std::vector<std::string>& relations) {
        if (dozing_ || !possible_) return false;
        unknown_ = false;
        for (const std::string& relation : relations) dozing_ |= announce(connection, relation);
        dozing_ = dozing_ && !pooled_;
        possible_ = dozing_ || unknown_;
        return dozing_;
    }
    bool doze(pqxx::connection& connection, const std::string& relation) { return doze(connection, std::vector<std::string>{relation}); }

    // A pooler in transaction mode has been found, and notifications are not waited for any more: true once.
    bool found_pooler() noexcept { return std::exchange(pooled_, false); }

    // The socket has something to say: true if it was a notification.
    bool woken(pqxx::connection& connection) {
        if (sql::take_notifications(connection) == 0) return false;
        dozing_ = false;
        in_vain_ = std::min(in_vain_ + 1, 3);
        return true;
    }

    // There was work: whoever woke us was right.
    void found() noexcept { in_vain_ = 0; }

    // How long a nap must have become before it pays to go to sleep again: to be woken in vain costs those who bring work, too.
    std::chrono::milliseconds patience(std::chrono::milliseconds first_nap) const noexcept { return first_nap * (1 << in_vain_); }

private:
    // False: it was attached without wake, or this is not allowed, or a pooler does not keep the session. A session
    // that is neither that of the login nor that of the last time does not begin to listen.
    bool announce(pqxx::connection& connection, const std::string& relation) {
        try {
            if (session_ == 0) session_ = connection.backendpid();
            for (int attempt = 0; attempt < 2 && !pooled_; ++attempt) {
                const auto said = sql::run_alone(connection, sleep_statement,
                                                 relation.empty() ? nullptr : relation.c_str(), session_);
                if (!said[0][1].is_null()) return true;
                pooled_ = kept_ || !is_kept(connection);
                if (unknown_) return false;
                kept_ = true;
                session_ = said[0][0].as<int>();
            }
            return false;
        } catch (const ConnectionLost&) {
            throw;
        } catch (const Error&) {
            return false;
        }
    }

    // A pooler that accepts no more connections cannot be examined now.
    bool is_kept(pqxx::connection& connection) {
        try {
            return keeps_session(connection, settings_);
        } catch (const ConnectionLost&) {
            return unknown_ = true;
        }
    }

    static constexpr const char* sleep_statement =
        "SELECT pg_catalog.pg_backend_pid(), "
        "CASE pg_catalog.pg_backend_pid() WHEN $2::pg_catalog.int4 THEN pawl.sleep($1::regclass) END";

    bool dozing_ = false;
    int in_vain_ = 0;  // wake-ups that brought no work, in a row
    bool possible_ = true;
    ConnectionSettings settings_;
    int session_ = 0;      // the process that answered; 0: not asked yet
    bool kept_ = false;    // it is a pooler's, which seemed to keep it
    bool pooled_ = false;
    bool unknown_ = false;  // whether it is kept
};

}  // namespace pawl
