// May throw.
#include "tls.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <stdexcept>

#include <openssl/err.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pawl::api {
namespace {

std::string openssl_problem() {
    char text[200] = "unknown";
    ERR_error_string_n(ERR_get_error(), text, sizeof text);
    ERR_clear_error();
    return text;
}

void check_rights(const std::string& key) {
    struct stat file {};
    if (::stat(key.c_str(), &file) != 0)
        throw std::runtime_error("cannot use key " + key + ": " + std::strerror(errno));
    const bool is_of_root = file.st_uid == 0;
    if (!S_ISREG(file.st_mode)) throw std::runtime_error("cannot use key " + key + ": it is not a regular file");
    if (!is_of_root && file.st_uid != ::geteuid())
        throw std::runtime_error("cannot use key " + key + ": it must belong to the user of this process, or to root");
    if ((file.st_mode & (is_of_root ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO)) != 0)
        throw std::runtime_error("cannot use key " + key +
                                 ": group or others have access to it; its mode must be 0600 or less, or 0640 or less "
                                 "if it belongs to root");
}

// Without sessions that are resumed, each connection shows its certificate: one that has expired or was taken from the
// authority does not live on in a ticket.
void accept_clients(SSL_CTX* context, const std::string& authority) {
    if (SSL_CTX_load_verify_locations(context, authority.c_str(), nullptr) != 1)
        throw std::runtime_error("cannot use authority " + authority + ": " + openssl_problem());
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(authority.c_str()));
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(context, 0);
}

}  // namespace

void check(const Tls& tls) {
    if (tls.certificate.empty() != tls.key.empty())
        throw std::invalid_argument(tls.key.empty() ? "api_certificate needs api_key"
                                                    : "api_key needs api_certificate");
    if (tls.certificate.empty() && !tls.client_authority.empty())
        throw std::invalid_argument("api_client_ca needs api_certificate and api_key");
}

TlsContext make_context(const Tls& tls) {
    if (tls.certificate.empty()) return nullptr;
    TlsContext made(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
    SSL_CTX_set_min_proto_version(made.get(), TLS1_2_VERSION);
    SSL_CTX_set_mode(made.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(made.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    if (SSL_CTX_use_certificate_chain_file(made.get(), tls.certificate.c_str()) != 1)
        throw std::runtime_error("cannot use certificate " + tls.certificate + ": " + openssl_problem());
    check_rights(tls.key);
    if (SSL_CTX_use_PrivateKey_file(made.get(), tls.key.c_str(), SSL_FILETYPE_PEM) != 1)
        throw std::runtime_error("cannot use key " + tls.key + ": " + openssl_problem());
    if (!tls.client_authority.empty()) accept_clients(made.get(), tls.client_authority);
    return made;
}

std::chrono::system_clock::time_point expiry_of(const TlsContext& context) {
    std::tm end{};
    ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(context.get())), &end);
    return std::chrono::system_clock::from_time_t(::timegm(&end));
}

}  // namespace pawl::api
