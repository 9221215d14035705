// May throw (the constructor). The HTTP API of pawld: each route is one call of the database, in the role of the
// client.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <pawl/connection.hpp>

#include "limits.hpp"
#include "pool.hpp"
#include "server.hpp"

namespace pawl::daemon {
class Log;
}

namespace pawl::api {

struct Settings {
    std::string address = {};          // host:port; empty: no API; port 0: any free one
    ConnectionSettings database = {};  // logs in as pawl_authenticator, or a role that can become the roles of tokens
    bool all_databases = false;        // serve all among which namespaces are divided, not only this one
    std::string login = {};            // has user and password for the others; empty: their connection strings do
    std::size_t connections = 8;       // to each database
    std::chrono::milliseconds timeout{30'000};  // longest statement
    int failed_logins = 10;                     // per address and minute
    std::size_t links = 1'000;                  // valid at a time
    std::set<std::string> hosts = {};           // accepted Host names; empty: any
    std::set<std::string> proxies = {};         // addresses and networks whose X-Forwarded-For is trusted
    Limits limits = {};
    Tls tls = {};
};

// The state of the daemon. Each function returns whether it holds, and stores why not.
struct Condition {
    std::function<bool(std::string&)> alive;                                        // /healthz
    std::function<bool(std::string&)> ready;                                        // /readyz
    std::function<bool(const std::string& database, std::string&)> database_ready;  // whether it can work in this one
};

// How the connections to a database are used.
using Use = Pool::Use;

class Api {
public:
    Api(const Settings& settings, const daemon::Log& log, Condition condition);
    ~Api();
    Api(const Api&) = delete;
    Api& operator=(const Api&) = delete;

    int port() const noexcept;
    // As those of Server. Thread-safe.
    void reload_certificate();
    TlsContext tls() const;

    std::vector<std::pair<std::string, Use>> use() const;  // by the names of databases; the only one has none

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl::api
