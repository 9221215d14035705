// May throw (the constructor). The HTTP server: cpp-httplib parses and answers, on Connections with one thread each, up
// to the limit of clients.
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
    std::string client_authority;  // PEM; accepts client certificates that it has signed
};

class Server final : public httplib::Server {
public:
    Server(const Limits& limits, const Tls& tls);
    ~Server() override;

    // Returns the port. Throws std::runtime_error if the address cannot be listened on.
    int bind(const std::string& host, int port);

    // Ends all connections, event streams included.
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
