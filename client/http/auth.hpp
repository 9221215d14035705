// May throw (out of memory). The client of a request: its token or certificate, its address, and the limit of failed
// logins.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <httplib.h>

#include "pool.hpp"

namespace pawl::api {

// The credentials of a request; nothing if it has none. A token is accepted in the header Authorization only, so that
// no other site can make a browser send it.
std::optional<Caller> credentials(const httplib::Request& request);

std::string sha256(std::string_view text);

// The proxies that are trusted to name a client's address.
class Proxies {
public:
    // Addresses and networks (10.0.0.0/8). Throws std::invalid_argument.
    explicit Proxies(const std::set<std::string>& networks);

    // The client's address: the peer's, or the last one in X-Forwarded-For that is no trusted proxy's.
    std::string client_of(const std::string& peer, const std::string& forwarded) const;

private:
    struct Network {
        std::array<unsigned char, 16> address;
        int bits;
    };
    bool contains(const std::string& address) const;

    std::vector<Network> networks_;
};

// Limits failed logins. Thread-safe; memory is bounded.
// After `most` failures of an address within a minute with tokens that share a prefix, such tokens are rejected for
// that address without a query until the minute is over, except those that were valid a short time ago. Other tokens
// are always looked up. After more failures of an address, with any tokens, the answer to each further failure is
// delayed.
class LoginLimiter {
public:
    using Clock = std::chrono::steady_clock;

    explicit LoginLimiter(int most = 10) : most_(most) {}

    // Seconds that the client must wait; 0: look the token up.
    int must_wait(const Caller& caller);

    void known(const std::string& digest);

    struct Verdict {
        bool late;    // delay the answer
        bool logged;  // log it: the address has not failed too often
    };
    Verdict unknown(const Caller& caller);

private:
    struct Failures {
        int count = 0;
        Clock::time_point since{};
        std::map<std::string, int> prefixes = {};
    };

    int most_;
    std::mutex mutex_;
    std::map<std::string, Failures> failures_;  // by network
    std::map<std::string, Clock::time_point> known_;
};

}  // namespace pawl::api
