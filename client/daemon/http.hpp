// May throw (the constructor). /healthz and /metrics over HTTP, on a thread of its own.
#pragma once

#include <memory>
#include <string>

#include "metrics.hpp"

namespace pawl::daemon {

class HttpServer {
public:
    // address: host:port; port 0 takes any free one. Throws std::runtime_error when it cannot listen there.
    HttpServer(const std::string& address, const Metrics& metrics);
    ~HttpServer();
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    int port() const noexcept;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pawl::daemon
