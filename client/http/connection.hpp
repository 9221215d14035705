// May throw (out of memory). One connection of a client, plain or TLS: everything that is read or written has a
// deadline, so that a slow client holds no thread.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <httplib.h>

#include "limits.hpp"

namespace pawl::api {

class Connection final : public httplib::Stream {
public:
    // ssl: null without TLS. Neither it nor the socket is owned.
    Connection(int socket, SSL* ssl, const Limits& limits);

    enum class Head { complete, ended, late, too_large, malformed };

    // Waits for the next request and reads its whole head, so that the parser never waits for the network.
    Head read_head();

    // Closes the connection after the answer: the body of the request was not read to its end.
    void close_after_this() noexcept { last_ = true; }
    bool is_last() const noexcept { return last_; }

    // True if the body of the request was not read to its end, so that the next bytes may be no request.
    bool has_unread_body() const noexcept { return chunked_ || left_ > 0; }

    // After the last answer and the shutdown of this side: reads and drops what the client still sends, within limits.
    void discard();

    // Sends what the parser has written: head and body of an answer leave together. False: the client is gone or slow.
    // more: more bytes follow at once.
    bool flush(bool more = false);

    // Writes past the parser, whose own answer is dropped from then on, as in flush.
    bool write_all(std::string_view bytes, bool more = false);
    void mute() noexcept { muted_ = true; }
    bool is_gone() const;

    // Reads of the body fail once the parser has taken this many bytes in a row without handing any on (0: no limit):
    // it keeps them in memory. saw_content: it has handed some on.
    void limit_unseen(std::size_t bytes) noexcept { most_unseen_ = bytes; }
    void saw_content() noexcept { unseen_ = 0; }

    // Waits; returns earlier if the client hangs up.
    void pause(std::chrono::milliseconds time) const;

    // SHA-256 of the client's certificate, which the configured authority has signed; nothing without one.
    std::optional<std::string> certificate() const;

    bool is_readable() const override;
#ifdef CPPHTTPLIB_VERSION_NUM  // later versions ask for more, and wait by these
    bool is_writable() const;
    bool wait_readable() const override;
    bool wait_writable() const override;
    time_t duration() const override;
#else
    bool is_writable() const override;
#endif
    ssize_t read(char* into, size_t size) override;
    ssize_t write(const char* bytes, size_t size) override;
    void get_remote_ip_and_port(std::string& address, int& port) const override;
    void get_local_ip_and_port(std::string& address, int& port) const override;
    socket_t socket() const override {
        return socket_;
    }

private:
    using Clock = std::chrono::steady_clock;

    bool wait(short events, Clock::time_point until) const;
    ssize_t receive(char* into, size_t size, Clock::time_point until);
    ssize_t receive_first(char* into, size_t size);
    ssize_t send(const char* bytes, size_t size, Clock::time_point until, int flags = 0);
    bool send_all(std::string_view bytes, Clock::time_point until, bool more);
    Clock::time_point patience(std::size_t moved) const;
    Head check_head(std::size_t end);

    int socket_;
    SSL* ssl_;
    const Limits& limits_;
    std::string remote_, local_;  // addresses
    int remote_port_ = 0, local_port_ = 0;
    std::string buffer_;  // read from the socket, not yet by the parser
    std::size_t taken_ = 0;
    std::size_t left_ = 0;       // bytes of this request, head and body; nothing behind it is read
    bool chunked_ = false;       // the body has chunks: its length is unknown
    std::string unsent_;         // written by the parser, not yet sent
    Clock::time_point began_{};  // of the request
    std::size_t moved_ = 0;      // bytes of the request and of its answer
    std::size_t most_unseen_ = 0, unseen_ = 0;
    bool last_ = false;
    bool muted_ = false;
};

// The connection that this thread serves, or null.
extern thread_local Connection* current_connection;

}  // namespace pawl::api
