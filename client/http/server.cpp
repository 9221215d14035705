// May throw (the constructor).
#include "server.hpp"

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.hpp"
#include "problem.hpp"

namespace pawl::api {
namespace {

thread_local bool refusing = false;  // this connection is one too many

// Later versions of cpp-httplib want to know whether the task was taken; here it always is.
using Enqueued = decltype(std::declval<httplib::TaskQueue&>().enqueue({}));

// A thread for each connection; where all are taken the connection is rejected at once. A few are kept for the next
// ones, the others end when a flood is over.
class Threads final : public httplib::TaskQueue {
public:
    explicit Threads(std::size_t most) : most_(most) {}

    Enqueued enqueue(std::function<void()> task) override {
        std::list<std::thread> ended;
        {
            std::unique_lock lock(mutex_);
            ended.swap(ended_threads_);
            if (waiting_ > tasks_.size() || add_thread()) {
                tasks_.push_back(std::move(task));
                lock.unlock();
                come_.notify_one();
                for (std::thread& thread : ended) thread.join();
                return static_cast<Enqueued>(true);
            }
        }
        for (std::thread& thread : ended) thread.join();
        refusing = true;
        task();
        refusing = false;
        return static_cast<Enqueued>(true);
    }

    void shutdown() override {
        std::unique_lock lock(mutex_);
        ended_ = true;
        come_.notify_all();
        come_.wait(lock, [this] { return threads_.empty(); });
        for (std::thread& thread : ended_threads_) thread.join();
        ended_threads_.clear();
    }

private:
    static constexpr std::size_t kept = 16;
    static constexpr auto patience = std::chrono::seconds(2);

    // False: there are enough, or the system gives no more.
    bool add_thread() {
        if (threads_.size() >= most_) return false;
        threads_.emplace_front();
        try {
            threads_.front() = std::thread([this, self = threads_.begin()] { work(self); });
        } catch (const std::system_error&) {
            threads_.pop_front();
            return false;
        }
        return true;
    }

    void work(std::list<std::thread>::iterator self) {
        std::unique_lock lock(mutex_);
        for (;;) {
            ++waiting_;
            const bool woken = come_.wait_for(lock, patience, [this] { return ended_ || !tasks_.empty(); });
            --waiting_;
            if (!tasks_.empty()) {
                const std::function<void()> task = std::move(tasks_.front());
                tasks_.pop_front();
                lock.unlock();
                task();
                lock.lock();
            } else if (ended_ || (!woken && threads_.size() > kept)) {
                break;
            }
        }
        ended_threads_.splice(ended_threads_.begin(), threads_, self);
        if (ended_) come_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable come_;
    std::deque<std::function<void()>> tasks_;
    std::list<std::thread> threads_, ended_threads_;  // ended: to be joined
    std::size_t most_;
    std::size_t waiting_ = 0;
    bool ended_ = false;
};

// Like everything here, a handshake is not waited for without end.
bool tls_handshake(SSL* ssl, int socket, std::chrono::milliseconds patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
        const int done = SSL_accept(ssl);
        if (done == 1) return true;
        const int why = SSL_get_error(ssl, done);
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
        pollfd what{socket, static_cast<short>(why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN), 0};
        if ((why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) || left <= 0 ||
            ::poll(&what, 1, static_cast<int>(left)) <= 0)
            return false;
    }
}

void say(Connection& connection, int status, const std::string& detail) {
    const std::string body = Problem{.status = status, .detail = detail}.json();
    const std::string text =
        "HTTP/1.1 " + std::to_string(status) + " " + title_of(status) +
        "\r\nContent-Type: application/problem+json\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\nConnection: close\r\n" + (status == 503 ? "Retry-After: 1\r\n" : "") + "\r\n" + body;
    connection.write_all(text);
}

}  // namespace

Server::Server(const Limits& limits, const Tls& tls) : limits_(limits), tls_(tls), context_(make_context(tls)) {
    new_task_queue = [this] { return new Threads(limits_.clients); };
    set_payload_max_length(limits_.upload_bytes);
    set_tcp_nodelay(true);
    // cpp-httplib lets several processes share a port: requests would be divided among them, also of two databases.
    set_socket_options([](int socket) {
        const int yes = 1;
        ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    set_keep_alive_max_count(static_cast<std::size_t>(limits_.requests));
    set_keep_alive_timeout(std::chrono::duration_cast<std::chrono::seconds>(limits_.idle).count());
    // Every answer passes here, the parser's own included: a connection with an unread body ends, and says so.
    set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
        if (!current_connection || !(current_connection->is_last() || current_connection->has_unread_body())) return;
        current_connection->close_after_this();
        response.headers.erase("Keep-Alive");
        response.headers.erase("Connection");
        response.set_header("Connection", "close");
    });
}

Server::~Server() {
    end();
}

int Server::bind(const std::string& host, int port) {
    errno = 0;
    const int bound = port == 0 ? bind_to_any_port(host) : bind_to_port(host, port) ? port : -1;
    if (bound <= 0)
        throw std::runtime_error("cannot listen on " + host + ":" + std::to_string(port) +
                                 (errno == 0 ? std::string() : std::string(": ") + std::strerror(errno)));
    ::listen(svr_sock_, 1024);  // cpp-httplib lets five wait, and the sixth client waits a second
    return bound;
}

bool Server::remember(int socket) {
    const std::lock_guard lock(mutex_);
    if (!ended_) open_.insert(socket);
    return !ended_;
}

void Server::forget(int socket) {
    const std::lock_guard lock(mutex_);
    open_.erase(socket);
    ::close(socket);  // under the lock: another connection may get the number at once
}

void Server::end() {
    {
        const std::lock_guard lock(mutex_);
        ended_ = true;
        for (const int socket : open_) ::shutdown(socket, SHUT_RDWR);
    }
    if (is_running()) stop();
}

void Server::reload_certificate() {
    TlsContext made = make_context(tls_);
    const std::lock_guard lock(mutex_);
    context_ = std::move(made);
}

TlsContext Server::context() const {
    const std::lock_guard lock(mutex_);
    return context_;
}

bool Server::process_and_close_socket(socket_t socket) {
    const TlsContext context = this->context();
    if (refusing || !remember(socket)) {
        if (!context) {
            Limits short_ones = limits_;
            short_ones.silence = std::chrono::milliseconds(0);
            Connection connection(socket, nullptr, short_ones);
            say(connection, 503, "too many connections");
        }
        ::close(socket);
        return false;
    }
    if (context) {
        ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL, 0) | O_NONBLOCK);
        const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context.get()), SSL_free);
        SSL_set_fd(ssl.get(), socket);
        if (tls_handshake(ssl.get(), socket, limits_.head)) serve(socket, ssl.get());
    } else {
        serve(socket, nullptr);
    }
    forget(socket);
    return true;
}

// Later versions of cpp-httplib ask for the addresses, which earlier ones take from the connection.
template <typename Base>
bool Server::answer(Base& base, Connection& connection, bool last, bool& closed) {
    if constexpr (requires { base.process_request(connection, last, closed, nullptr); }) {
        return base.process_request(connection, last, closed, nullptr);
    } else {
        std::string remote, local;
        int remote_port = 0, local_port = 0;
        connection.get_remote_ip_and_port(remote, remote_port);
        connection.get_local_ip_and_port(local, local_port);
        return base.process_request(connection, remote, remote_port, local, local_port, last, closed, nullptr);
    }
}

void Server::serve(int socket, SSL* ssl) {
    Connection connection(socket, ssl, limits_);
    current_connection = &connection;
    for (int left = limits_.requests; left > 0 && !connection.is_last(); --left) {
        switch (connection.read_head()) {
            case Connection::Head::complete:
                break;
            case Connection::Head::ended:
                left = 0;
                break;
            case Connection::Head::late:
                say(connection, 408, "the request did not come in time"), left = 0;
                break;
            case Connection::Head::too_large:
                say(connection, 431, "the request line or the headers are too large"), left = 0;
                break;
            case Connection::Head::malformed:
                say(connection, 400, "the request is malformed"), left = 0;
                break;
        }
        if (left <= 0) break;
        bool closed = false;
        const bool answered = answer(*this, connection, left == 1 || connection.is_last(), closed);
        if (!connection.flush() || !answered || closed || connection.has_unread_body()) break;
    }
    current_connection = nullptr;
    if (ssl) SSL_shutdown(ssl);
    ::shutdown(socket, SHUT_WR);
    if (connection.has_unread_body()) connection.discard();
}

}  // namespace pawl::api
