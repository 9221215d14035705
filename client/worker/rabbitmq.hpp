// May throw. Queues of a RabbitMQ broker, spoken to through librabbitmq: durable queues, persistent messages, confirmed by the broker and
// acknowledged by the worker. Only in builds with that library.
#pragma once

#include "broker.hpp"

namespace pawl {

void check_rabbitmq(const MessageSettings& settings);
std::unique_ptr<Outlet> make_rabbitmq_outlet(const MessageSettings& settings);
std::unique_ptr<Subscription> subscribe_rabbitmq(const MessageSettings& settings, const Channel& channel, int prefetch);

}  // namespace pawl
