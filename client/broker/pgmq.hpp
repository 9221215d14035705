// May throw. Queues of the extension PGMQ, used through its documented functions.
#pragma once

#include "broker.hpp"

namespace pawl {

// Sends in the given transaction: the messages exist exactly if the events that they come from count as read.
std::unique_ptr<BrokerPublisher> make_pgmq_publisher();

// Creates the queue if it does not exist, and grants it to pawl_worker. Needs the privileges that pgmq.create needs.
std::unique_ptr<Subscription> subscribe_pgmq(const MessageSettings& settings, const ConnectionSettings& database,
                                             const Channel& channel);

}  // namespace pawl
