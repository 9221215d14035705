// May throw (out of memory). Names of queues and the text of messages. No broker and no database.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pawl {

// Messages about one queue of one table go here.
struct Channel {
    std::string relation;  // with its schema, quoted where needed
    std::optional<std::string> queue = std::nullopt;
};

using RowKey = std::vector<std::string>;  // the key columns as texts

struct Message {
    Channel channel;
    RowKey key;
};

// The queue's name. RabbitMQ: "pawl.pawl_dag.steps.billing". PGMQ, whose names are short: a readable part and a hash.
std::string rabbitmq_name(const Channel& channel);
std::string pgmq_name(const Channel& channel);

// JSON: {"relation": ..., "queue": ..., "key": [...]}.
std::string body_of(const Message& message);

// The key in a message; nothing if it is not a message for this channel.
std::optional<RowKey> key_in(const std::string& body, const Channel& channel);

}  // namespace pawl
