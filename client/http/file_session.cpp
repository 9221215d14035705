// May throw.
#include "file_session.hpp"

#include <algorithm>

#include <poll.h>

#include "connection.hpp"

namespace pawl::api {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_looks{1'000};  // at the client

std::string hexadecimal_of(std::string_view digest) {
    std::string text = "\\x";
    for (const unsigned char byte : digest) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 15];
    }
    return text;
}

}  // namespace

FileSession::FileSession(const Member& member, const Caller& caller)
    : silence_(longest_silence(member.pool.timeout())),
      session_(member.file_settings(), [this](int socket, short events) { wait(socket, events); }) {
    const std::string limit = std::to_string(member.pool.timeout().count());
    session_.run("SET timezone = 'UTC'");
    // where the server's system has this: it ends the work of a connection that is closed
    session_.run(
        "SELECT set_config('statement_timeout', $1, false),"
        " CASE WHEN version() LIKE '%linux%' THEN set_config('client_connection_check_interval', '1s', false) END",
        {limit});
    session_.run("BEGIN");
    session_.run("SELECT pawl_api.begin_request($1, $2::bytea, $3, $4)",
                 {caller.kind, hexadecimal_of(caller.digest), caller.scope,
                  caller.trace.empty() ? std::nullopt : std::optional(caller.trace)});
}

void FileSession::begin_long_work() {
    session_.run(
        "SELECT set_config('lock_timeout', current_setting('statement_timeout'), true),"
        " set_config('statement_timeout', '0', true)");
}

void FileSession::expect_work(std::uint64_t rows) noexcept {
    silence_ += std::chrono::seconds(rows / 1'000);
}

void FileSession::wait(int socket, short events) const {
    for (const auto end = Clock::now() + silence_;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
        if (left.count() <= 0) throw Silence("08006", "the database did not answer in time");
        pollfd what{socket, events, 0};
        if (::poll(&what, 1, static_cast<int>(std::min(left, between_looks).count())) > 0) return;
        if (current_connection && current_connection->is_gone()) throw ClientGone();
    }
}

}  // namespace pawl::api
