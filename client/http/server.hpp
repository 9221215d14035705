// May throw (the constructor). The HTTP server: cpp-httplib's parser and answers on connections of our own, a thread
// each, as many as the limits allow.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <httplib.h>

#include "limits.hpp"

namespace pawl::api {

class Connection;

struct Tls {
    std::string certificate;  // a chain in PEM; empty: no TLS
    std::string key;
    std::string client_authority;  // PEM; clients may show a certificate that it signed
};

class Server final : public httplib::Server {
public:
    Server(const Limits& limits, const Tls& tls);
    ~Server() override;

    // Throws std::runtime_error when it cannot listen there; returns the port.
    int bind(const std::string& host, int port);

    // Ends the connections too: streams have no end of their own.
    void end();

private:
    bool process_and_close_socket(socket_t socket) override;
    void serve(int socket, SSL* ssl);
    template <typename Base>
    bool answer(Base& base, Connection& connection, bool last, bool& closed);
    bool remember(int socket);
    void forget(int socket);

    Limits limits_;
    std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> tls_;
    std::mutex mutex_;
    std::set<int> open_;
    bool ended_ = false;
};

}  // namespace pawl::api
