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

// What a request shows; none: nothing. A token comes in the header Authorization and nowhere else, so no other site can
// make a browser send it.
std::optional<Caller> credentials(const httplib::Request& request);

std::string sha256(std::string_view text);

// The proxies whose word about a client's address counts.
class Proxies {
public:
    // Addresses and networks (10.0.0.0/8). Throws std::invalid_argument.
    explicit Proxies(const std::set<std::string>& networks);

    // The client's address: the peer's, or the last one in X-Forwarded-For that is not a known proxy's.
    std::string client_of(const std::string& peer, const std::string& forwarded) const;

private:
    struct Network {
        std::array<unsigned char, 16> address;
        int bits;
    };
    bool contains(const std::string& address) const;

    std::vector<Network> networks_;
};

// Failed logins. After `most` of them within a minute with tokens of the same beginning, such tokens are not looked up
// any more for that address until the minute is over, unless the token was known a short while ago. Other tokens are
// looked up in any case; but where an address has failed more often, with whatever tokens, each further failure is
// answered late. Memory is bounded.
class LoginLimiter {
public:
    using Clock = std::chrono::steady_clock;

    explicit LoginLimiter(int most = 10) : most_(most) {}

    // Seconds to wait; 0: go ahead.
    int must_wait(const Caller& caller);

    void known(const std::string& digest);

    struct Verdict {
        bool late;    // the answer is to be held back
        bool logged;  // the log has not heard of it too often
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
