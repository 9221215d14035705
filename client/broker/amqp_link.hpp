// May throw. A connection to a broker with one channel. Errors of librabbitmq become BrokerLost, which names the broker
// and no password.
#pragma once

#include <memory>
#include <string>
#include <vector>

// Its folder since librabbitmq 0.12.
#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#else
#include <amqp.h>
#endif

#include "broker.hpp"

namespace pawl {

// A broker's URL and its parts, which point into `text`.
struct BrokerAddress {
    std::vector<char> text;
    amqp_connection_info info{};

    explicit BrokerAddress(const std::string& url);  // throws Error
    std::string name() const;                        // host:port
};

class AmqpLink {
public:
    explicit AmqpLink(const MessageSettings& settings);
    ~AmqpLink();
    AmqpLink(const AmqpLink&) = delete;
    AmqpLink& operator=(const AmqpLink&) = delete;

    amqp_connection_state_t state() const noexcept { return state_.get(); }
    static constexpr amqp_channel_t channel = 1;

    // Check a status, the reply to the last call, or a reply: anything but success calls lose(). `what` begins its
    // message.
    void expect(int status, const char* what);
    void expect_reply(const char* what);
    void expect_reply(const amqp_rpc_reply_t& reply, const char* what);
    // Throws BrokerLost; the connection is not used any more.
    [[noreturn]] void lose(const std::string& why);

    int socket() const noexcept { return amqp_get_sockfd(state_.get()); }

private:
    void open(const MessageSettings& settings);
    void secure(amqp_socket_t* socket, const MessageSettings& settings);

    struct Destroy {
        void operator()(amqp_connection_state_t_* state) const noexcept { amqp_destroy_connection(state); }
    };
    BrokerAddress address_;
    std::unique_ptr<amqp_connection_state_t_, Destroy> state_;
    bool open_ = false;
};

amqp_bytes_t bytes_of(const std::string& text) noexcept;
std::string text_of(amqp_bytes_t bytes);

// Creates the queue if it does not exist. It survives a restart of the broker.
void declare_queue(AmqpLink& link, const std::string& name);

}  // namespace pawl
