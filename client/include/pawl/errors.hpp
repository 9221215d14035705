// Errors as types: one for each SQLSTATE that pawl raises, so that callers branch by `catch` and never by text.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <pawl/transient.hpp>

namespace pawl {

/// The base of all errors of this library. what() is the server's message with its DETAIL and HINT.
class Error : public std::runtime_error {
public:
    Error(std::string sqlstate, const std::string& message)
        : std::runtime_error(message), sqlstate_(std::move(sqlstate)) {}

    /// Five characters; empty if the error is not the server's.
    const std::string& sqlstate() const noexcept { return sqlstate_; }

private:
    std::string sqlstate_;
};

/// The connection is lost, or the server shuts down: connect again. If a COMMIT was under way, its outcome is unknown.
class ConnectionLost : public Error {
public:
    using Error::Error;
};

/// Whether a statement that failed with this SQLSTATE may succeed unchanged later. The same as pawl.is_transient in
/// SQL.
using core::is_transient;

/// Two transactions were in each other's way (class 40, mostly 40001 and 40P01): the same transaction can be repeated
/// at once.
class TryAgain : public Error {
public:
    using Error::Error;
};

/// Something needs a session of its own, and the connection does not keep one: a pooler in transaction mode is between,
/// or a pooler that the settings do not name. SQLSTATE 0A000.
class SessionRequired : public Error {
public:
    /// @param what what needs the session: the subject of the message
    /// @param in_transaction_mode whether the settings say so (Pooler::transaction)
    /// @param hint what to do instead, as a sentence
    SessionRequired(const std::string& what, bool in_transaction_mode, const std::string& hint);
};

/// The server's answer has not the expected shape: a missing column, a null, a value of another type, or JSON that is
/// invalid or nested too deep. The SQLSTATE is empty.
class UnexpectedAnswer : public Error {
public:
    using Error::Error;
};

/// error::no_such_transition, error::not_the_owner, error::lease_lost and so on: the SQLSTATEs of class PW.
namespace error {
#define PAWL_SQLSTATE(code, name, meaning)                     \
    class name : public Error {                                \
    public:                                                    \
        using Error::Error;                                    \
        static constexpr const char* sqlstate_of_class = code; \
    };
#include <pawl/sqlstate.def>
#undef PAWL_SQLSTATE
}  // namespace error

/// Throws the type that belongs to the SQLSTATE, or Error itself if none does.
[[noreturn]] void throw_error(const std::string& sqlstate, const std::string& message);

}  // namespace pawl
