// May throw. Sessions by libpq itself, for COPY: that of libpqxx differs between its versions, and escapes what is
// escaped already.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include <pawl/connection.hpp>

namespace pawl {

// The settings as a libpq connection string. Throws Error if the target cannot be read.
std::string libpq_string(const ConnectionSettings& settings);

// A target that leads where `target` leads, and logs in as `login` does: what `login` says of user, password and client
// certificate counts. Both must be readable.
std::string with_login_of(const std::string& login, const std::string& target);

inline constexpr const char* backend_pid_statement = "SELECT pg_catalog.pg_backend_pid()";

// As the public keeps_session(), for any kind of connection. login_pid: the process that the login named. answering_pid
// runs backend_pid_statement; it is called for Pooler::none only.
bool keeps_session(const ConnectionSettings& settings, int login_pid, const std::function<int()>& answering_pid);

// Throw SessionRequired unless the session is kept.
void require_session(bool kept, const ConnectionSettings& settings, const std::string& what, const std::string& hint);
void require_session_for_role(bool kept, const ConnectionSettings& settings);

// A value of a result; valid as long as the result. Throws UnexpectedAnswer if there is no such row or column, or it is
// null.
const char* value_of(const PGresult* result, int row, int column);

// One connection. Not thread-safe. Every method throws ConnectionLost, or the type that belongs to the server's
// SQLSTATE.
class LibpqSession {
public:
    using Result = std::unique_ptr<PGresult, void (*)(PGresult*)>;
    using Parameter = std::optional<std::string>;  // nothing: null

    // Waits until the socket is ready for the events of poll(2). May throw, which ends the use of the session.
    using Wait = std::function<void(int socket, short events)>;

    // Connects. Throws SessionRequired as connect() does. wait: for every answer of the server; none: without limit.
    explicit LibpqSession(const ConnectionSettings& settings, Wait wait = {});

    // One statement with parameters $1, $2, ...
    Result run(const std::string& statement, const std::vector<Parameter>& parameters = {});

    std::string server_encoding() const;
    int backend_pid() const noexcept;  // as the login named it

    // COPY ... FROM STDIN: begin, any number of put, end.
    void begin_copy(const std::string& statement);
    void put(std::string_view bytes);
    void end_copy();

    // COPY ... TO STDOUT: `consume` gets a line at a time.
    void copy_out(const std::string& statement, const std::function<void(std::string_view)>& consume);

private:
    Result checked(PGresult* result);
    [[noreturn]] void lost();
    void wait(short events);
    void flush();
    PGresult* next();
    Result last(bool sent);

    std::unique_ptr<PGconn, void (*)(PGconn*)> connection_;
    Wait wait_;
    std::size_t unsent_ = 0;  // bytes of COPY since the last flush
};

}  // namespace pawl
