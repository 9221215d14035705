// What can go wrong, as types: one for every SQLSTATE that pawl gives, so that callers branch by `catch` and never by text.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <pawl/transient.hpp>

namespace pawl {

// Every error of this library. what() is the server's message with its DETAIL and HINT.
class Error : public std::runtime_error {
public:
    Error(std::string sqlstate, const std::string& message) : std::runtime_error(message), sqlstate_(std::move(sqlstate)) {}

    // Five characters; empty where the error is not the server's.
    const std::string& sqlstate() const noexcept { return sqlstate_; }

private:
    std::string sqlstate_;
};

// The connection is gone, or the server is going down: connect again. Whether a commit that was under way happened is not known.
class ConnectionLost : public Error {
public:
    using Error::Error;
};

// Whether what failed with this SQLSTATE may succeed when it is done again, with nothing mended; pawl.is_transient says the same in SQL.
using core::is_transient;

// Two transactions stood in each other's way (class 40, 40001 and 40P01 most of all): the same transaction, done again, succeeds.
class TryAgain : public Error {
public:
    using Error::Error;
};

// What was asked for needs a session of the server, and a pooler in transaction mode is in between. SQLSTATE 0A000.
class PoolerBetween : public Error {
public:
    explicit PoolerBetween(const std::string& what, const std::string& hint)
        : Error("0A000", what + " cannot be used through a pooler in transaction mode\n"
                                "DETAIL:  Transactions of one connection run in different sessions of the server.\n"
                                "HINT:  " + hint) {}
};

// The server's answer is not what was asked for: a column that is missing, a null, a value of another type, JSON that is none or too deep.
// Its SQLSTATE is empty.
class UnexpectedAnswer : public Error {
public:
    using Error::Error;
};

// error::no_such_transition, error::not_the_owner, error::lease_lost and so on: the class PW of SQLSTATEs.
namespace error {
#define PAWL_SQLSTATE(code, name, meaning)  \
    class name : public Error {             \
    public:                                 \
        using Error::Error;                 \
        static constexpr const char* sqlstate_of_class = code; \
    };
#include <pawl/sqlstate.def>
#undef PAWL_SQLSTATE
}  // namespace error

// Throws the type that belongs to the code; Error itself where none does.
[[noreturn]] void throw_error(const std::string& sqlstate, const std::string& message);

}  // namespace pawl
