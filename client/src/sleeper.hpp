// May throw. Waiting to be woken: pawl.sleep, where the lifecycle and the connection allow it; otherwise polling is all
// there is. Behind a pooler of transactions pawl.sleep would leave its lock with a session that others use.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <pawl/connection.hpp>

#include "sql.hpp"

namespace pawl {

class Sleeper {
public:
    // Of a connection that is new.
    explicit Sleeper(bool session_pooler = false) : session_pooler_(session_pooler) {}

    // Announces that this session goes to sleep; true if it has just begun to, so that work must be looked for once more. Relations
    // that wake nobody are left out; none is the channel of events.
    bool doze(pqxx::connection& connection, const std::vector<std::string>& relations) {
        if (dozing_ || !possible_) return false;
        if (!asked_ && !session_pooler_) pooled_ = is_pooled(connection);
        asked_ = true;
        if (pooled_) return possible_ = false;
        for (const std::string& relation : relations) dozing_ |= announce(connection, relation);
        possible_ = dozing_;
        return dozing_;
    }
    bool doze(pqxx::connection& connection, const std::string& relation) { return doze(connection, std::vector<std::string>{relation}); }

    // A pooler was found where a session is needed: true once, for the one who tells it.
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
    // False: it was attached without wake, or this is not allowed.
    static bool announce(pqxx::connection& connection, const std::string& relation) {
        try {
            sql::run_alone(connection, "SELECT pawl.sleep($1::regclass)", relation.empty() ? nullptr : relation.c_str());
        } catch (const ConnectionLost&) {
            throw;
        } catch (const Error&) {
            return false;
        }
        return true;
    }

    bool dozing_ = false;
    int in_vain_ = 0;  // wake-ups that brought no work, in a row
    bool possible_ = true;
    bool session_pooler_;
    bool asked_ = false;
    bool pooled_ = false;
};

// What a program says of a pooler.
inline constexpr const char* polls_behind_pooler =
    "a pooler is between this program and the server, so it looks for work now and then instead of sleeping: set "
    "wake = false, or session_pooler = true where the pooler keeps sessions";


}  // namespace pawl
