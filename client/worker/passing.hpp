// May throw (out of memory). What the loops of workers and conductors share.
#pragma once

#include <random>
#include <string>

#include <pawl/errors.hpp>

namespace pawl {

inline std::string random_uuid() {
    std::random_device random;
    std::string uuid = "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx";
    for (char& c : uuid)
        if (c == 'x') c = "0123456789abcdef"[random() % 16];
    return uuid;
}

// The database is busy, short of something or read-only for now; nobody has to mend a statement.
inline bool passes(const Error& error) {
    return is_transient(error.sqlstate()) || error.sqlstate() == "25006";  // a standby, or one that is being made the primary
}

}  // namespace pawl
