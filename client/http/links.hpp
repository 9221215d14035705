// May throw (out of memory). Links to files, for browsers, which send no token. A link stands for one request of an
// authenticated client. It is valid once, for a minute. Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "pool.hpp"

namespace pawl::api {

// A requested route and its client. Following the link queries the database again, so that a token revoked meanwhile
// opens nothing.
struct Linked {
    std::string operation;
    std::map<std::string, std::string> arguments;
    std::string database;  // the one of several that has the file
    Caller caller;
};

class Links {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::seconds valid{60};

    explicit Links(std::size_t most) : most_(most) {}

    // A new ticket of 256 random bits; empty if as many links as there may be are open.
    std::string make(Linked linked, Clock::time_point now = Clock::now());

    // The request of a ticket, which is removed; nothing if it is unknown or expired.
    std::optional<Linked> follow(const std::string& ticket, Clock::time_point now = Clock::now());

private:
    struct Kept {
        Linked linked;
        Clock::time_point until;
    };

    const std::size_t most_;
    std::mutex mutex_;
    std::map<std::string, Kept> kept_;  // by the digest of the ticket
};

}  // namespace pawl::api
