// May throw (the constructor). /healthz, /readyz and /metrics over HTTP, on a thread of its own.
#pragma once

#include <memory>
#include <string>

#include "metrics.hpp"

namespace pawl::daemon {

class HttpServer {
public:
    // address: host:port; port 0: any free one. Throws std::runtime_error if it cannot be listened on.
    // patience: how long a round of a lane may take before /healthz is 503.
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
