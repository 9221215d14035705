// May throw. Queues of a RabbitMQ broker by librabbitmq: durable queues and persistent messages, confirmed by the
// broker and acknowledged by the worker. Compiled only if the library was found.
#pragma once

#include "broker.hpp"

namespace pawl {

// Throws Error if no broker is named, or its URL cannot be read.
void check_rabbitmq(const MessageSettings& settings);
std::unique_ptr<BrokerPublisher> make_rabbitmq_publisher(const MessageSettings& settings);
std::unique_ptr<Subscription> subscribe_rabbitmq(const MessageSettings& settings, const Channel& channel, int prefetch);

}  // namespace pawl
