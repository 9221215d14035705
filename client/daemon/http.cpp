// May throw (the constructor).
#include "http.hpp"

#include <stdexcept>
#include <thread>

#include <httplib.h>

namespace pawl::daemon {

struct HttpServer::Impl {
    httplib::Server server;
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
    // One request for each connection: what follows it is not read.
    impl_->server.set_keep_alive_max_count(1);
    impl_->server.set_payload_max_length(0);
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
    if (impl_->port == 0)
        impl_->port = impl_->server.bind_to_any_port(host.c_str());
    else if (!impl_->server.bind_to_port(host.c_str(), impl_->port))
        impl_->port = -1;
    if (impl_->port <= 0) throw std::runtime_error("cannot listen on " + address);
    impl_->thread = std::jthread([this] { impl_->server.listen_after_bind(); });
    while (!impl_->server.is_running()) std::this_thread::yield();  // stop() before it runs would be lost
}

HttpServer::~HttpServer() {
    impl_->server.stop();
}

int HttpServer::port() const noexcept {
    return impl_->port;
}

}  // namespace pawl::daemon
