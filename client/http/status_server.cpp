// May throw (the constructor).
#include "status_server.hpp"

#include <thread>

#include "server.hpp"

namespace pawl::daemon {

namespace {

// One request for each connection. A client that is slow holds a thread for a few seconds, and the others do not wait.
api::Limits limits() {
    api::Limits limits;
    limits.clients = 64;
    limits.head_bytes = 4 * 1024;
    limits.upload_bytes = 0;
    limits.requests = 1;
    limits.idle = limits.head = limits.silence = std::chrono::seconds(5);
    return limits;
}

}  // namespace

struct HttpServer::Impl {
    api::Server server{limits(), {}};
    int port = 0;
    std::jthread thread;
};

HttpServer::HttpServer(const std::string& address, const Metrics& metrics, std::chrono::milliseconds patience)
    : impl_(std::make_unique<Impl>()) {
    const auto colon = address.rfind(':');
    const std::string host = address.substr(0, colon);
    impl_->port = std::stoi(address.substr(colon + 1));
    const auto answer = [](httplib::Response& response, bool good, const std::string& why) {
        response.status = good ? 200 : 503;
        response.set_content(good ? "ok\n" : why + "\n", "text/plain");
    };
    impl_->server.Get("/healthz", [=, &metrics](const httplib::Request&, httplib::Response& response) {
        std::string why;
        const bool good = metrics.alive(patience, why);
        answer(response, good, why);
    });
    impl_->server.Get("/readyz", [=, &metrics](const httplib::Request&, httplib::Response& response) {
        std::string why;
        const bool good = metrics.ready(why);
        answer(response, good, why);
    });
    impl_->server.Get("/healthz/([a-z0-9_]+)",
                      [=, &metrics](const httplib::Request& request, httplib::Response& response) {
                          std::string why;
                          const bool good = metrics.part_alive(request.matches[1], patience, why);
                          answer(response, good, why);
                      });
    impl_->server.Get("/readyz/([a-z0-9_]+)",
                      [=, &metrics](const httplib::Request& request, httplib::Response& response) {
                          std::string why;
                          const bool good = metrics.part_ready(request.matches[1], why);
                          answer(response, good, why);
                      });
    impl_->server.Get("/metrics", [&metrics](const httplib::Request&, httplib::Response& response) {
        response.set_content(metrics.text(), "text/plain; version=0.0.4");
    });
    impl_->port = impl_->server.bind(host, impl_->port);
    impl_->thread = std::jthread([this] { impl_->server.listen_after_bind(); });
    while (!impl_->server.is_running()) std::this_thread::yield();  // stop() before it runs would be lost
}

HttpServer::~HttpServer() {
    impl_->server.end();
}

int HttpServer::port() const noexcept {
    return impl_->port;
}

}  // namespace pawl::daemon
