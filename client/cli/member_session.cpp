// May throw. See member_session.hpp.
#include "member_session.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace pawl::cli {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds shortest_wait{10}, longest_wait{500}, before_message{3'000};

// The limits that this version of the server knows.
const char* const set_what_counts =
    "SELECT set_config(s.name, v.value, false) FROM (VALUES ('default_transaction_isolation', 'read committed'),"
    " ('default_transaction_read_only', 'off'), ('default_transaction_deferrable', 'off'), ('statement_timeout', '0'),"
    " ('lock_timeout', '0'), ('idle_in_transaction_session_timeout', '0'), ('idle_session_timeout', '0'),"
    " ('transaction_timeout', '0')) v(name, value) JOIN pg_settings s ON s.name = v.name";

}  // namespace

LibpqSession member_session(const ConnectionSettings& settings) {
    LibpqSession session(settings);
    session.run(set_what_counts);
    return session;
}

ConnectionSettings with_target(ConnectionSettings settings, const std::string& target) {
    settings.target = target;
    return settings;
}

ConnectionSettings home_of(const ConnectionSettings& member) {
    LibpqSession session = member_session(member);
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
