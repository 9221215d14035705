// May throw (the constructor). /healthz, /readyz and /metrics over HTTP, on a thread of its own.
#pragma once

#include <memory>
#include <string>

#include "metrics.hpp"

namespace pawl::daemon {

class HttpServer {
public:
    // address: host:port; port 0 takes any free one. Throws std::runtime_error when it cannot listen there.
    // patience: how long a lane may be at one thing before the daemon is not alive.
    HttpServer(const std::string& address, const Metrics& metrics, std::chrono::milliseconds patience);
    ~HttpServer();
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    int port() const noexcept;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl::daemon
