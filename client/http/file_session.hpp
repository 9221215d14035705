// May throw. The database connection of an upload or export: every answer of the server is waited for with a limit, and
// not longer than the client is there.
#pragma once

#include <chrono>

#include <pawl/errors.hpp>

#include "libpq.hpp"
#include "members.hpp"

namespace pawl::api {

// The client has hung up, or pawld ends.
struct ClientGone {};

// The server sent nothing for too long.
class Silence : public ConnectionLost {
public:
    using ConnectionLost::ConnectionLost;
};

class FileSession {
public:
    // Connects for the client of current_connection, and begins its request as Pool does, with the same limit for a
    // statement. Throws Error; this and every method of the session Silence and ClientGone.
    FileSession(const Member& member, const Caller& caller);
    FileSession(const FileSession&) = delete;
    FileSession& operator=(const FileSession&) = delete;

    // From now on a statement may take as long as it is not silent; the limit is that of a wait for a lock.
    void begin_long_work();

    // What follows works on so many rows, and may be silent for a second more for each thousand.
    void expect_work(std::uint64_t rows) noexcept;

    LibpqSession& operator*() noexcept { return session_; }
    LibpqSession* operator->() noexcept { return &session_; }

private:
    void wait(int socket, short events) const;

    std::chrono::milliseconds silence_;
    LibpqSession session_;
};

}  // namespace pawl::api
