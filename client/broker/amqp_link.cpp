// May throw.
#include "amqp_link.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/ssl_socket.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#endif
#include <openssl/ssl.h>

#include <pawl/errors.hpp>

namespace pawl {
namespace {

constexpr timeval step_timeout{10, 0};
constexpr int heartbeat = 15;  // seconds
constexpr int longest_frame = 131'072;
constexpr unsigned longest_silence = 30'000;  // ms

// Why the broker closed the channel or the connection.
std::string reason_of(const amqp_rpc_reply_t& reply) {
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) return amqp_error_string2(reply.library_error);
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION) return "no answer";
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
        return text_of(static_cast<const amqp_connection_close_t*>(reply.reply.decoded)->reply_text);
    if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
        return text_of(static_cast<const amqp_channel_close_t*>(reply.reply.decoded)->reply_text);
    return "it closed the connection";
}

}  // namespace

std::string text_of(amqp_bytes_t bytes) {
    return {static_cast<const char*>(bytes.bytes), bytes.len};
}

BrokerAddress::BrokerAddress(const std::string& url) : text(url.begin(), url.end()) {
    text.push_back('\0');
    amqp_default_connection_info(&info);
    if (amqp_parse_url(text.data(), &info) != AMQP_STATUS_OK)
        throw Error("22023", "broker must be a URL like amqp://user:password@host:5672/vhost or amqps://…");
}

std::string BrokerAddress::name() const {
    return std::string(info.host) + ":" + std::to_string(info.port);
}

AmqpLink::AmqpLink(const MessageSettings& settings) : address_(settings.broker), state_(amqp_new_connection()) {
    if (!state_) throw std::bad_alloc();
    open(settings);
    open_ = true;
}

AmqpLink::~AmqpLink() {
    if (open_) amqp_connection_close(state_.get(), AMQP_REPLY_SUCCESS);
}

void AmqpLink::lose(const std::string& why) {
    open_ = false;
    throw BrokerLost("broker " + address_.name() + ": " + why);
}

void AmqpLink::expect(int status, const char* what) {
    if (status != AMQP_STATUS_OK) lose(std::string(what) + ": " + amqp_error_string2(status));
}

void AmqpLink::expect_reply(const amqp_rpc_reply_t& reply, const char* what) {
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) lose(std::string(what) + ": " + reason_of(reply));
}

void AmqpLink::expect_reply(const char* what) {
    expect_reply(amqp_get_rpc_reply(state_.get()), what);
}

// The broker needs a valid certificate with its host name.
void AmqpLink::secure(amqp_socket_t* socket, const MessageSettings& settings) {
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 1);
    if (settings.broker_ca.empty())
        SSL_CTX_set_default_verify_paths(static_cast<SSL_CTX*>(amqp_ssl_socket_get_context(socket)));
    else if (amqp_ssl_socket_set_cacert(socket, settings.broker_ca.c_str()) != AMQP_STATUS_OK)
        lose("cannot read the certificates in " + settings.broker_ca);
    amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
}

void AmqpLink::open(const MessageSettings& settings) {
    const amqp_connection_info& info = address_.info;
    amqp_socket_t* socket = info.ssl ? amqp_ssl_socket_new(state()) : amqp_tcp_socket_new(state());
    if (socket == nullptr) throw std::bad_alloc();
    if (info.ssl) secure(socket, settings);
    timeval time = step_timeout;
    expect(amqp_set_handshake_timeout(state(), &time), "timeout");
    expect(amqp_set_rpc_timeout(state(), &time), "timeout");
    expect(amqp_socket_open_noblock(socket, info.host, info.port, &time), "cannot connect");
    // the library writes without a time limit, so a peer that reads nothing would block this thread for ever
    setsockopt(amqp_get_sockfd(state()), IPPROTO_TCP, TCP_USER_TIMEOUT, &longest_silence, sizeof longest_silence);
    // be notified when the queue of a consumer is deleted
    amqp_table_entry_t able[2] = {};
    able[0].key = amqp_cstring_bytes("consumer_cancel_notify");
    able[1].key = amqp_cstring_bytes("authentication_failure_close");
    for (amqp_table_entry_t& entry : able) {
        entry.value.kind = AMQP_FIELD_KIND_BOOLEAN;
        entry.value.value.boolean = 1;
    }
    amqp_table_entry_t capabilities{};
    capabilities.key = amqp_cstring_bytes("capabilities");
    capabilities.value.kind = AMQP_FIELD_KIND_TABLE;
    capabilities.value.value.table = {2, able};
    const amqp_table_t properties{1, &capabilities};
    expect_reply(amqp_login_with_properties(state(), info.vhost, 0, longest_frame, heartbeat, &properties,
                                            AMQP_SASL_METHOD_PLAIN, info.user, info.password),
                 "cannot log in");
    amqp_channel_open(state(), channel);
    expect_reply("cannot open a channel");
}

amqp_bytes_t bytes_of(const std::string& text) noexcept {
    return {text.size(), const_cast<char*>(text.data())};
}

void declare_queue(AmqpLink& link, const std::string& name) {
    amqp_queue_declare(link.state(), AmqpLink::channel, bytes_of(name), 0, 1, 0, 0, amqp_empty_table);
    link.expect_reply("cannot declare the queue");
}

}  // namespace pawl
