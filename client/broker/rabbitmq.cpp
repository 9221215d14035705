// May throw.
#include "rabbitmq.hpp"

#include <chrono>
#include <map>

#include <sys/time.h>

#include <pawl/errors.hpp>

#include "amqp_link.hpp"

namespace pawl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto confirm_time = std::chrono::seconds(10);
constexpr std::uint8_t persistent = 2;
constexpr timeval no_time{0, 0};

class RabbitPublisher final : public BrokerPublisher {
public:
    explicit RabbitPublisher(const MessageSettings& settings) : settings_(settings) {}

    void connect() override {
        if (link_) return;
        auto link = std::make_unique<AmqpLink>(settings_);
        amqp_confirm_select(link->state(), AmqpLink::channel);
        link->expect_reply("it does not confirm messages");
        link_ = std::move(link);
        sent_ = 0;
    }

    std::size_t publish(pqxx::transaction_base&, const std::vector<Message>& messages) override {
        return guarded([&] {
            unroutable_ = 0;
            unconfirmed_.clear();
            for (const Message& message : messages) send(message);
            const auto deadline = Clock::now() + confirm_time;
            while (!unconfirmed_.empty())
                read_frame(std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now()));
            return unroutable_;
        });
    }

    // Answers the broker's heartbeats, and notices a lost connection.
    void keep_alive() override {
        if (!link_) return;
        guarded([&] {
            timeval time = no_time;
            amqp_frame_t frame;
            amqp_maybe_release_buffers(link_->state());
            const int status = amqp_simple_wait_frame_noblock(link_->state(), &frame, &time);
            if (status == AMQP_STATUS_OK)
                note(frame);
            else if (status != AMQP_STATUS_TIMEOUT)
                link_->expect(status, "the connection is gone");
            return std::size_t{0};
        });
    }

private:
    // A connection that failed is not used again, because half of a batch may be on its way.
    template <typename Call>
    std::size_t guarded(Call&& call) {
        try {
            return call();
        } catch (...) {
            link_.reset();
            throw;
        }
    }

    void send(const Message& message) {
        const std::string queue = rabbitmq_name(message.channel);
        const std::string body = body_of(message);
        amqp_basic_properties_t properties{};
        properties._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG;
        properties.content_type = amqp_cstring_bytes("application/json");
        properties.delivery_mode = persistent;
        link_->expect(amqp_basic_publish(link_->state(), AmqpLink::channel, amqp_empty_bytes, bytes_of(queue), 1, 0,
                                         &properties, bytes_of(body)),
                      "cannot publish");
        unconfirmed_.emplace(++sent_, queue);
    }

    void read_frame(std::chrono::microseconds left) {
        if (left.count() <= 0) link_->lose("it has not confirmed messages in time");
        timeval time{static_cast<time_t>(left.count() / 1'000'000), static_cast<suseconds_t>(left.count() % 1'000'000)};
        amqp_frame_t frame;
        amqp_maybe_release_buffers(link_->state());
        link_->expect(amqp_simple_wait_frame_noblock(link_->state(), &frame, &time), "messages are not confirmed");
        note(frame);
    }

    // A returned message is confirmed as well. Its header and body are not needed.
    void note(const amqp_frame_t& frame) {
        if (frame.frame_type != AMQP_FRAME_METHOD) return;
        const amqp_method_t& method = frame.payload.method;
        switch (method.id) {
            case AMQP_BASIC_ACK_METHOD: {
                const auto* ack = static_cast<const amqp_basic_ack_t*>(method.decoded);
                if (ack->multiple)
                    unconfirmed_.erase(unconfirmed_.begin(), unconfirmed_.upper_bound(ack->delivery_tag));
                else
                    unconfirmed_.erase(ack->delivery_tag);
                break;
            }
            case AMQP_BASIC_NACK_METHOD:
                rejected(static_cast<const amqp_basic_nack_t*>(method.decoded)->delivery_tag);
            case AMQP_BASIC_RETURN_METHOD:
                ++unroutable_;
                break;
            case AMQP_CHANNEL_CLOSE_METHOD:
                link_->lose(text_of(static_cast<const amqp_channel_close_t*>(method.decoded)->reply_text));
            case AMQP_CONNECTION_CLOSE_METHOD:
                link_->lose(text_of(static_cast<const amqp_connection_close_t*>(method.decoded)->reply_text));
            default:
                break;
        }
    }

    [[noreturn]] void rejected(std::uint64_t tag) {
        const auto message = unconfirmed_.find(tag);
        link_->lose((message == unconfirmed_.end() ? "a queue" : "queue " + message->second) +
                    " takes no more messages (is it full?)");
    }

    const MessageSettings settings_;
    std::unique_ptr<AmqpLink> link_;
    std::uint64_t sent_ = 0;
    std::map<std::uint64_t, std::string> unconfirmed_;  // by delivery tag, with their queues
    std::size_t unroutable_ = 0;
};

class RabbitSubscription final : public Subscription {
public:
    RabbitSubscription(const MessageSettings& settings, const Channel& channel, int prefetch) : link_(settings) {
        const std::string queue = rabbitmq_name(channel);
        declare_queue(link_, queue);
        amqp_basic_qos(link_.state(), AmqpLink::channel, 0, static_cast<std::uint16_t>(std::min(prefetch, 65'535)), 0);
        link_.expect_reply("cannot limit what comes at once");
        amqp_basic_consume(link_.state(), AmqpLink::channel, bytes_of(queue), amqp_empty_bytes, 0, 0, 0,
                           amqp_empty_table);
        link_.expect_reply("cannot consume");
    }

    std::vector<Delivery> receive(int most) override {
        std::vector<Delivery> received;
        // at least once: the library answers the broker's heartbeats here; more than the prefetch never comes
        do {
            amqp_envelope_t envelope;
            timeval time = no_time;
            amqp_maybe_release_buffers(link_.state());
            const amqp_rpc_reply_t reply = amqp_consume_message(link_.state(), &envelope, &time, 0);
            if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && reply.library_error == AMQP_STATUS_TIMEOUT)
                break;
            // anything but a message: the queue was deleted, or the broker closes the connection
            link_.expect_reply(reply, "the subscription has ended");
            received.push_back({envelope.delivery_tag,
                                {static_cast<const char*>(envelope.message.body.bytes), envelope.message.body.len}});
            amqp_destroy_envelope(&envelope);
        } while (static_cast<int>(received.size()) < most);
        return received;
    }

    void acknowledge(const std::vector<std::uint64_t>& tags) override {
        for (const std::uint64_t tag : tags)
            link_.expect(amqp_basic_ack(link_.state(), AmqpLink::channel, tag, 0), "cannot acknowledge");
    }

    void reject(std::uint64_t tag) override {
        link_.expect(amqp_basic_reject(link_.state(), AmqpLink::channel, tag, 0), "cannot reject");
    }

    int socket() const noexcept override { return link_.socket(); }

private:
    AmqpLink link_;
};

}  // namespace

void check_rabbitmq(const MessageSettings& settings) {
    if (settings.broker.empty())
        throw Error("22023", "queue provider rabbitmq needs a broker: amqp://user:password@host:5672/vhost");
    BrokerAddress{settings.broker};
}

std::unique_ptr<BrokerPublisher> make_rabbitmq_publisher(const MessageSettings& settings) {
    return std::make_unique<RabbitPublisher>(settings);
}

std::unique_ptr<Subscription> subscribe_rabbitmq(const MessageSettings& settings, const Channel& channel,
                                                 int prefetch) {
    return std::make_unique<RabbitSubscription>(settings, channel, prefetch);
}

}  // namespace pawl
