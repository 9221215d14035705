// May throw. See member_session.hpp.
#include "member_session.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include <poll.h>

#include <pawl/errors.hpp>

namespace pawl::cli {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds shortest_wait{10}, longest_wait{500}, before_message{3'000}, longest_silence{60'000};

// The limits that this version of the server knows.
const char* const set_what_counts =
    "SELECT set_config(s.name, v.value, false) FROM (VALUES ('default_transaction_isolation', 'read committed'),"
    " ('default_transaction_read_only', 'off'), ('default_transaction_deferrable', 'off'), ('statement_timeout', '0'),"
    " ('lock_timeout', '0'), ('idle_in_transaction_session_timeout', '0'), ('idle_session_timeout', '0'),"
    " ('transaction_timeout', '0')) v(name, value) JOIN pg_settings s ON s.name = v.name";

// The transactions that keep process $1 waiting. pg_blocking_pids has a zero for each that is prepared.
const char* const blockers =
    "SELECT coalesce(string_agg(b.text, ', '), '') FROM ("
    " SELECT format('process %s (%s), whose transaction began at %s', a.pid,"
    " coalesce(nullif(a.application_name, ''), a.usename), coalesce(a.xact_start::text, 'an unknown time')) AS text"
    " FROM pg_stat_activity a WHERE a.pid = ANY (pg_blocking_pids($1))"
    " UNION SELECT format('prepared transaction %s \"%s\"', p.transaction, p.gid) FROM pg_locks w JOIN pg_locks h ON"
    " (w.locktype, w.database, w.relation, w.page, w.tuple, w.virtualxid, w.transactionid, w.classid, w.objid,"
    " w.objsubid) IS NOT DISTINCT FROM (h.locktype, h.database, h.relation, h.page, h.tuple, h.virtualxid,"
    " h.transactionid, h.classid, h.objid, h.objsubid)"
    " JOIN pg_locks x ON x.virtualtransaction = h.virtualtransaction AND x.locktype = 'transactionid' AND x.granted"
    " JOIN pg_prepared_xacts p ON p.transaction = x.transactionid"
    " WHERE w.pid = $1 AND NOT w.granted AND h.granted AND h.pid IS NULL AND x.pid IS NULL AND 0 = ANY "
    "(pg_blocking_pids($1))) b";

// How a session waits for answers. A second session asks what keeps it waiting.
struct Patience {
    Patience(ConnectionSettings settings, Say say) : settings(std::move(settings)), say(std::move(say)) {}

    void wait(int socket, short events) {
        std::string told;
        for (milliseconds silence = before_message;;) {
            pollfd what{socket, events, 0};
            const int ready = ::poll(&what, 1, static_cast<int>(silence.count()));
            if (ready > 0 || (ready < 0 && errno != EINTR)) return;
            if (ready < 0) continue;
            const std::string now = find_blockers();
            if (!now.empty() && now != told) say("waiting for a lock: " + now);
            told = now;
            silence = std::min(2 * silence, longest_silence);
        }
    }

    // Empty if there are none, or they cannot be found: the statement goes on in any case.
    std::string find_blockers() const {
        if (pid == 0) return "";
        try {
            return value_of(LibpqSession(settings).run(blockers, {std::to_string(pid)}).get(), 0, 0);
        } catch (const Error&) {
            return "";
        }
    }

    const ConnectionSettings settings;
    const Say say;
    int pid = 0;  // of the server's process; 0: not connected yet
};

}  // namespace

LibpqSession member_session(const ConnectionSettings& settings, const Say& say) {
    const auto patience = std::make_shared<Patience>(settings, say);
    LibpqSession session(settings, [patience](int socket, short events) { patience->wait(socket, events); });
    patience->pid = session.backend_pid();
    session.run(set_what_counts);
    return session;
}

ConnectionSettings with_target(ConnectionSettings settings, const std::string& target) {
    settings.target = target;
    return settings;
}

ConnectionSettings home_of(const ConnectionSettings& member, const Say& say) {
    LibpqSession session = member_session(member, say);
    const auto found = session.run("SELECT d.connection FROM pawl.database d WHERE d.is_home AND NOT d.is_here");
    return PQntuples(found.get()) == 0 ? member : with_target(member, value_of(found.get(), 0, 0));
}

void wait_for_open_transactions(LibpqSession& session, const Say& say) {
    std::string open, told;
    const auto look = [&](const LibpqSession::Parameter& among) {
        const auto found = session.run("SELECT t, array_to_string(t, ', ') FROM pawl.transactions($1) t", {among});
        open = value_of(found.get(), 0, 0);
        return std::string(value_of(found.get(), 0, 1));
    };
    std::string names = look(std::nullopt);
    auto quiet_until = steady_clock::now() + before_message;
    for (milliseconds wait = shortest_wait; !names.empty(); wait = std::min(2 * wait, longest_wait)) {
        if (names != told && steady_clock::now() >= quiet_until) {
            say("waiting for transactions that began before: " + names);
            told = names;
            quiet_until = steady_clock::now() + before_message;
        }
        std::this_thread::sleep_for(wait);
        names = look(open);
    }
}

}  // namespace pawl::cli
