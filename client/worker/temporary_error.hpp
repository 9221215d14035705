// May throw (out of memory). Which errors a loop survives, and the names under which it owns work.
#pragma once

#include <random>
#include <string>

#include <pawl/errors.hpp>

namespace pawl {

// A version 4 UUID from the system's entropy.
inline std::string random_uuid() {
    std::random_device random;
    std::string uuid = "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx";
    for (char& c : uuid)
        if (c == 'x') c = "0123456789abcdef"[random() % 16];
    return uuid;
}

// Whether the same statement may succeed later without a change by a user: transient SQLSTATEs, and 25006 (read-only),
// which a standby raises until it is promoted.
inline bool is_temporary(const Error& error) {
    return is_transient(error.sqlstate()) || error.sqlstate() == "25006";
}

// Whether the error is not about the work that was reported or claimed: the session is lost, another transaction was in
// the way, or the work has moved to another database.
inline bool is_elsewhere(const Error& error) {
    return dynamic_cast<const error::placed_elsewhere*>(&error) != nullptr;
}
inline bool says_nothing_of_work(const Error& error) {
    return dynamic_cast<const ConnectionLost*>(&error) != nullptr || is_elsewhere(error) || is_temporary(error);
}

}  // namespace pawl
