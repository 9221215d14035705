// May throw (the constructor). The HTTP server: cpp-httplib parses and answers, on Connections with one thread each, up
// to the limit of clients.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <httplib.h>

#include "limits.hpp"
#include "tls.hpp"

namespace pawl::api {

class Connection;

class Server final : public httplib::Server {
public:
    Server(const Limits& limits, const Tls& tls);
    ~Server() override;

    // Returns the port. Throws std::runtime_error if the address cannot be listened on.
    int bind(const std::string& host, int port);

    // Reads the files of TLS again, for connections that begin after it. Throws std::runtime_error, and the certificate
    // stays, if they cannot be used. Thread-safe.
    void reload_certificate();

    // What connections that begin now get; null: no TLS.
    TlsContext context() const;

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
    const Tls tls_;
    mutable std::mutex mutex_;
    TlsContext context_;
    std::set<int> open_;
    bool ended_ = false;
};

}  // namespace pawl::api
