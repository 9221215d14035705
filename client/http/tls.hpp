// May throw. TLS of the HTTP server: certificate and key, the rules for the files, and the context that holds them.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <openssl/ssl.h>

namespace pawl::api {

struct Tls {
    std::string certificate;  // a chain in PEM; empty: no TLS
    std::string key;
    std::string client_authority;  // PEM; accepts client certificates that it has signed
};

using TlsContext = std::shared_ptr<SSL_CTX>;

// Throws std::invalid_argument unless certificate and key are both there or both missing, and the client authority only
// with them. Reads no file.
void check(const Tls& tls);

// Reads the files; null without a certificate. Throws std::runtime_error that names the file. As PostgreSQL has it, the
// key is owned by the user of this process, and group and others have no access to it, or by root, and the group can
// read it.
TlsContext make_context(const Tls& tls);

// When the server's own certificate expires.
std::chrono::system_clock::time_point expiry_of(const TlsContext& context);

}  // namespace pawl::api
