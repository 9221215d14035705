// May throw (the constructor). The HTTP API of pawld: each route is one call of the database, in the role of the
// client.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include <pawl/connection.hpp>

#include "limits.hpp"
#include "server.hpp"

namespace pawl::daemon {
class Log;
}

namespace pawl::api {

struct Settings {
    std::string address = {};          // host:port; empty: no API; port 0: any free one
    ConnectionSettings database = {};  // logs in as pawl_authenticator, or a role that can become the roles of tokens
    std::size_t connections = 8;       // to the database
    std::chrono::milliseconds timeout{30'000};  // longest statement
    int failed_logins = 10;                     // per address and minute
    std::set<std::string> hosts = {};           // accepted Host names; empty: any
    std::set<std::string> proxies = {};         // addresses and networks whose X-Forwarded-For is trusted
    Limits limits = {};
    Tls tls = {};
};

// The state of the daemon. Each function returns whether it holds, and stores why not.
struct Condition {
    std::function<bool(std::string&)> alive;  // /healthz
    std::function<bool(std::string&)> ready;  // /readyz
};

// How the connections to the database are used.
struct Use {
    std::size_t idle, taken, max;
    std::uint64_t calls, repeated, timeouts;
};

class Api {
public:
    Api(const Settings& settings, const daemon::Log& log, Condition condition);
    ~Api();
    Api(const Api&) = delete;
    Api& operator=(const Api&) = delete;

    int port() const noexcept;
    Use use() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl::api
