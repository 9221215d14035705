// May throw. Queues of messages between pawld, which says what became claimable, and workers. A message names a row and is a hint: what
// it is worth, the claim decides.
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

struct Delivery {
    std::uint64_t tag = 0;
    std::string body;
};

// The broker, or what leads to it, is not there.
class BrokerLost : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// pawld's end.
class Outlet {
public:
    virtual ~Outlet() = default;

    // Before any row is read.
    virtual void connect() = 0;

    // Comes back when the broker is responsible for the messages. Returns how many had no queue to go to: no worker has ever asked for
    // one, so nobody misses them.
    virtual std::size_t publish(pqxx::transaction_base& transaction, const std::vector<Message>& messages) = 0;

    // Now and then, while there is nothing to publish.
    virtual void tend() = 0;
};

// A worker's end. For one thread.
class Subscription {
public:
    virtual ~Subscription() = default;

    // What there is, without waiting for more. It also keeps the connection alive, so it is called now and then when nothing is wanted (0).
    virtual std::vector<Delivery> receive(int most) = 0;

    virtual void acknowledge(const std::vector<std::uint64_t>& tags) = 0;

    // What nobody can read must not come again.
    virtual void refuse(std::uint64_t tag) = 0;

    // Readable when there may be more; -1: it must be asked.
    virtual int socket() const noexcept = 0;
};

std::unique_ptr<Outlet> make_outlet(const MessageSettings& settings);
std::unique_ptr<Subscription> subscribe(const MessageSettings& settings, const ConnectionSettings& database, const Channel& channel, int prefetch);

}  // namespace pawl
