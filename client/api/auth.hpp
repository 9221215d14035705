// May throw (out of memory). Who asks: the token or certificate that a request shows, and how often an address may show wrong ones.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include <httplib.h>

#include "pool.hpp"

namespace pawl::api {

// What a request shows; none: nothing. A token comes in the header Authorization and nowhere else, so no other site can make a
// browser send it.
std::optional<Caller> credentials(const httplib::Request& request);

std::string sha256(std::string_view text);

// Failed logins by address: after `most` of them within a minute nobody is asked there any more until the minute is over, but who was
// known a short while ago still is.
class Doorkeeper {
public:
    using Clock = std::chrono::steady_clock;

    explicit Doorkeeper(int most = 10) : most_(most) {}

    // Seconds to wait; 0: go ahead.
    int must_wait(const std::string& address, const std::string& digest);

    void known(const std::string& digest);
    void unknown(const std::string& address);

private:
    struct Failures {
        int count = 0;
        Clock::time_point since{};
    };

    int most_;
    std::mutex mutex_;
    std::map<std::string, Failures> failures_;
    std::map<std::string, Clock::time_point> known_;
};

}  // namespace pawl::api
