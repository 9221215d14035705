// May throw. Queues of the extension PGMQ, spoken to by its documented functions.
#pragma once

#include "broker.hpp"

namespace pawl {

// Sends in the transaction that it is given, so messages are there exactly if what was read counts as read.
std::unique_ptr<Outlet> make_pgmq_outlet();

// Makes the queue if it is not there, for which the role needs the privileges that pgmq.create needs, and gives it to pawl_worker.
std::unique_ptr<Subscription> subscribe_pgmq(const MessageSettings& settings, const ConnectionSettings& database, const Channel& channel);

}  // namespace pawl
