// May throw (out of memory).
#include "connection.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>

namespace pawl::api {
namespace {

constexpr std::size_t most_unsent = 16 * 1024;  // bytes of an answer that wait for the rest of it

// One end of the socket. Nothing if it has none any more.
void describe(int (*name)(int, sockaddr*, socklen_t*), int socket, std::string& address, int& port) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    if (name(socket, reinterpret_cast<sockaddr*>(&from), &size) != 0) return;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (from.ss_family == AF_INET) {
        const auto& four = reinterpret_cast<const sockaddr_in&>(from);
        inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
        port = ntohs(four.sin_port);
    } else if (from.ss_family == AF_INET6) {
        const auto& six = reinterpret_cast<const sockaddr_in6&>(from);
        inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
        port = ntohs(six.sin6_port);
    }
    address = text.data();
}

// RFC 9110: what names of methods and headers are made of.
bool is_token(std::string_view text) {
    static constexpr std::string_view others = "!#$%&'*+-.^_`|~";
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               others.find(c) != std::string_view::npos;
    });
}

bool is_field_value(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) >= ' ' ? c != 0x7f : c == '\t'; });
}

// name: in small letters.
bool is_named(std::string_view text, std::string_view name) {
    return std::equal(text.begin(), text.end(), name.begin(), name.end(),
                      [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t");
    return first == std::string_view::npos ? std::string_view()
                                           : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

}  // namespace

thread_local Connection* current_connection = nullptr;

Connection::Connection(int socket, SSL* ssl, const Limits& limits) : socket_(socket), ssl_(ssl), limits_(limits) {
    if (!ssl_) {
        const auto seconds = std::chrono::floor<std::chrono::seconds>(limits.idle);
        const timeval idle{seconds.count(), std::chrono::microseconds(limits.idle - seconds).count()};
        ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof idle);
    }
    describe(::getpeername, socket, remote_, remote_port_);
    describe(::getsockname, socket, local_, local_port_);
}

bool Connection::wait(short events, Clock::time_point until) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd what{socket_, events, 0};
    return ::poll(&what, 1, static_cast<int>(std::clamp<long>(left, 0, 3'600'000))) > 0;
}

ssize_t Connection::receive(char* into, size_t size, Clock::time_point until) {
    for (;;) {
        ssize_t got;
        bool again;
        short events = POLLIN;
        if (ssl_) {
            got = SSL_read(ssl_, into, static_cast<int>(std::min<size_t>(size, 1 << 20)));
            const int why = got > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl_, static_cast<int>(got));
            again = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
            if (why == SSL_ERROR_WANT_WRITE) events = POLLOUT;
            if (why == SSL_ERROR_ZERO_RETURN) return 0;
        } else {
            got = ::recv(socket_, into, size, MSG_DONTWAIT);
            again = got < 0 && (errno == EAGAIN || errno == EINTR);
            if (got == 0) return 0;
        }
        if (got > 0) return got;
        if (!again || !wait(events, until)) return -1;
    }
}

// A connection waits most of its time for the next request. Without TLS that is one system call, which returns when the
// request comes or the idle time is over.
ssize_t Connection::receive_first(char* into, size_t size) {
    if (ssl_) return receive(into, size, Clock::now() + limits_.idle);
    for (;;) {
        const ssize_t got = ::recv(socket_, into, size, 0);
        if (got >= 0 || errno != EINTR) return got;
    }
}

ssize_t Connection::send(const char* bytes, size_t size, Clock::time_point until, int flags) {
    for (;;) {
        ssize_t put;
        bool again;
        short events = POLLOUT;
        if (ssl_) {
            put = SSL_write(ssl_, bytes, static_cast<int>(std::min<size_t>(size, 1 << 20)));
            const int why = put > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl_, static_cast<int>(put));
            again = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
            if (why == SSL_ERROR_WANT_READ) events = POLLIN;
        } else {
            put = ::send(socket_, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL | flags);
            again = put < 0 && (errno == EAGAIN || errno == EINTR);
        }
        if (put > 0) return put;
        if (!again || !wait(events, until)) return -1;
    }
}

// Bodies and answers may be long, but not slow.
Connection::Clock::time_point Connection::patience(std::size_t moved) const {
    const auto earned = std::chrono::milliseconds(1000 * moved / limits_.bytes_a_second);
    return std::min(Clock::now() + limits_.silence, began_ + limits_.grace + limits_.silence + earned);
}

Connection::Head Connection::read_head() {
    buffer_.erase(0, taken_);
    taken_ = 0;
    moved_ = 0;
    left_ = 0;
    chunked_ = false;
    Clock::time_point until = Clock::now() + limits_.head;
    bool begun = !buffer_.empty();
    std::array<char, 16 * 1024> piece;
    for (std::size_t looked = 0;;) {
        const std::size_t end = buffer_.find("\r\n\r\n", looked);
        if (end != std::string::npos) return end + 4 > limits_.head_bytes ? Head::too_large : check_head(end + 4);
        if (buffer_.size() > limits_.head_bytes) return Head::too_large;
        looked = buffer_.size() < 3 ? 0 : buffer_.size() - 3;
        const ssize_t got =
            begun ? receive(piece.data(), piece.size(), until) : receive_first(piece.data(), piece.size());
        if (got <= 0) return !begun || got == 0 ? Head::ended : Head::late;
        if (!begun) until = Clock::now() + limits_.head;
        begun = true;
        buffer_.append(piece.data(), static_cast<std::size_t>(got));
    }
}

// Decides where the request ends, before the parser sees it: what two readers could understand differently is
// malformed. Compressing and cutting answers on the client's word costs much and brings little: the parser does not get
// to see these two wishes.
Connection::Head Connection::check_head(std::size_t end) {
    began_ = Clock::now();
    const std::size_t first = buffer_.find("\r\n");
    const std::string_view line(buffer_.data(), first);
    const std::size_t target = line.find(' '), version = line.rfind(' ');
    if (target == std::string_view::npos || target == version || !is_token(line.substr(0, target)))
        return Head::malformed;
    if (version - target > limits_.target_bytes) return Head::too_large;
    for (const char c : line.substr(target + 1, version - target - 1))
        if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) return Head::malformed;
    const bool old = line.substr(version + 1) == "HTTP/1.0";
    if (!old && line.substr(version + 1) != "HTTP/1.1") return Head::malformed;
    const bool takes_body = line.substr(0, target) == "POST";

    int lengths = 0, encodings = 0, hosts = 0;
    std::size_t length = 0;
    for (std::size_t at = first + 2; at + 2 < end;) {
        const std::size_t stop = buffer_.find("\r\n", at);
        const std::string_view header(buffer_.data() + at, stop - at);
        const std::size_t colon = header.find(':');
        if (colon == std::string_view::npos) return Head::malformed;
        const std::string_view name = header.substr(0, colon), value = trimmed(header.substr(colon + 1));
        if (!is_token(name) || !is_field_value(value)) return Head::malformed;
        if (is_named(name, "content-length")) {
            if (++lengths > 1 || value.empty() || value.size() > 18 ||
                value.find_first_not_of("0123456789") != std::string_view::npos)
                return Head::malformed;
            for (const char digit : value) length = length * 10 + static_cast<std::size_t>(digit - '0');
        } else if (is_named(name, "transfer-encoding")) {
            if (++encodings > 1 || !is_named(value, "chunked")) return Head::malformed;
        } else if (is_named(name, "host")) {
            if (++hosts > 1) return Head::malformed;
        } else if (is_named(name, "accept-encoding")) {
            buffer_.replace(at, 6, "x-pawl");
        } else if (is_named(name, "range")) {
            buffer_.replace(at, 5, "x-any");
        }
        at = stop + 2;
    }
    if ((encodings > 0 && (lengths > 0 || old)) || (hosts == 0 && !old)) return Head::malformed;
    chunked_ = encodings > 0;
    left_ = end + length;
    // Only POST has its body read. Of chunks the parser alone knows where they end, so nothing is taken for a request
    // behind them.
    if (chunked_ || (!takes_body && length > 0)) last_ = true;
    return Head::complete;
}

// Gives the parser this request and not a byte of the next one.
ssize_t Connection::read(char* into, size_t size) {
    if (!chunked_) size = std::min(size, left_);
    if (size == 0) return 0;
    ssize_t got = 0;
    if (taken_ < buffer_.size()) {
        const std::size_t have = std::min(size, buffer_.size() - taken_);
        std::memcpy(into, buffer_.data() + taken_, have);
        taken_ += have;
        got = static_cast<ssize_t>(have);
    } else {
        if (!flush()) return -1;  // a client that waits for 100 Continue sends nothing before it
        got = receive(into, size, patience(moved_));
        if (got > 0) moved_ += static_cast<std::size_t>(got);
    }
    if (got > 0 && most_unseen_ > 0 && (unseen_ += static_cast<std::size_t>(got)) > most_unseen_) return -1;
    if (got > 0 && !chunked_) left_ -= static_cast<std::size_t>(got);
    return got;
}

// A socket that is closed with unread bytes is reset, and the answer may be lost with it.
void Connection::discard() {
    const auto until = Clock::now() + limits_.farewell;
    std::array<char, 16 * 1024> piece;
    for (std::size_t read = 0; read < limits_.discarded_bytes;) {
        if (!wait(POLLIN, until)) return;
        const ssize_t got = ::recv(socket_, piece.data(), piece.size(), MSG_DONTWAIT);
        if (got <= 0) return;
        read += static_cast<std::size_t>(got);
    }
}

ssize_t Connection::write(const char* bytes, size_t size) {
    if (muted_) return static_cast<ssize_t>(size);
    if (unsent_.size() + size <= most_unsent) {
        unsent_.append(bytes, size);
        return static_cast<ssize_t>(size);
    }
    if (!flush(true)) return -1;
    const ssize_t put = send(bytes, size, patience(moved_));
    if (put > 0) moved_ += static_cast<std::size_t>(put);
    return put;
}

bool Connection::flush(bool more) {
    const bool sent = send_all(unsent_, patience(moved_), more);
    moved_ += unsent_.size();
    unsent_.clear();
    return sent;
}

bool Connection::write_all(std::string_view bytes, bool more) {
    return flush(true) &&
           send_all(bytes, Clock::now() + limits_.silence + std::chrono::milliseconds(bytes.size() / 16), more);
}

bool Connection::send_all(std::string_view bytes, Clock::time_point until, bool more) {
    while (!bytes.empty()) {
        const ssize_t put = send(bytes.data(), bytes.size(), until, more ? MSG_MORE : 0);
        if (put <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(put));
    }
    return true;
}

// Notices that a client has hung up, for streams that write nothing for a while.
bool Connection::is_gone() const {
    pollfd what{socket_, POLLRDHUP, 0};
    return ::poll(&what, 1, 0) > 0;
}

void Connection::pause(std::chrono::milliseconds time) const {
    pollfd what{socket_, POLLRDHUP, 0};
    ::poll(&what, 1, static_cast<int>(time.count()));
}

bool Connection::is_readable() const {
    return taken_ < buffer_.size() || (ssl_ && SSL_pending(ssl_) > 0) || wait(POLLIN, patience(moved_));
}
// What is written waits in memory until it is flushed, and that waits for the socket.
bool Connection::is_writable() const {
    return true;
}

#ifdef CPPHTTPLIB_VERSION_NUM
bool Connection::wait_readable() const {
    return is_readable();
}
bool Connection::wait_writable() const {
    return is_writable();
}
time_t Connection::duration() const {
    return 0;  // it is for clients that have a longest time
}
#endif

void Connection::get_remote_ip_and_port(std::string& address, int& port) const {
    address = remote_;
    port = remote_port_;
}

void Connection::get_local_ip_and_port(std::string& address, int& port) const {
    address = local_;
    port = local_port_;
}

std::optional<std::string> Connection::certificate() const {
    if (!ssl_) return std::nullopt;
    const std::unique_ptr<X509, void (*)(X509*)> given(SSL_get1_peer_certificate(ssl_), X509_free);
    if (!given || SSL_get_verify_result(ssl_) != X509_V_OK) return std::nullopt;
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned length = 0;
    if (X509_digest(given.get(), EVP_sha256(), digest.data(), &length) != 1) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(digest.data()), length);
}

}  // namespace pawl::api
