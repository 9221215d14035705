// May throw. Queues of messages from pawld, which publishes what became claimable, to workers. A message names a row
// and is a hint: the claim decides whether the row is still claimable.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <pqxx/pqxx>

#include <pawl/connection.hpp>
#include <pawl/messages.hpp>

#include "broker_names.hpp"

namespace pawl {

// A message as it was received. The tag is the subscription's own.
struct Delivery {
    std::uint64_t tag = 0;
    std::string body;
};

// The broker, or the network to it, is not available.
class BrokerLost : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// Publishes, for pawld. Not thread-safe. Methods throw BrokerLost.
class BrokerPublisher {
public:
    virtual ~BrokerPublisher() = default;

    // Called before events are read. Does nothing if there is a connection.
    virtual void connect() = 0;

    // Returns once the broker has confirmed all messages, or has put them into the transaction. The result counts those
    // without a queue: no worker has ever subscribed to it, so none misses them.
    virtual std::size_t publish(pqxx::transaction_base& transaction, const std::vector<Message>& messages) = 0;

    // To be called every few seconds while there is nothing to publish.
    virtual void keep_alive() = 0;
};

// Receives, for a worker. Not thread-safe. Methods throw BrokerLost, or Error.
class Subscription {
public:
    virtual ~Subscription() = default;

    // Returns up to `limit` messages without waiting. To be called every second even with a limit of 0: it keeps the
    // connection alive.
    virtual std::vector<Delivery> receive(int limit) = 0;

    virtual void acknowledge(const std::vector<std::uint64_t>& tags) = 0;

    // Discards a message that cannot be read, so that it does not come again.
    virtual void reject(std::uint64_t tag) = 0;

    // Readable when there may be more messages; -1: call receive() to find out.
    virtual int socket() const noexcept = 0;
};

// Throw Error as check() does, and BrokerLost.
std::unique_ptr<BrokerPublisher> make_publisher(const MessageSettings& settings);
std::unique_ptr<Subscription> subscribe(const MessageSettings& settings, const ConnectionSettings& database,
                                        const Channel& channel, int prefetch);

}  // namespace pawl
