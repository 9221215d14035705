// May throw (out of memory). Names of queues and the text of messages. Knows neither broker nor database.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pawl {

// Where messages of a queue of a table go.
struct Channel {
    std::string relation;  // with its schema, quoted where needed
    std::optional<std::string> queue = std::nullopt;
};

using RowKey = std::vector<std::string>;  // the key columns as texts

struct Message {
    Channel channel;
    RowKey key;
};

// What the queue is called: "pawl.pawl_dag.steps.billing" with RabbitMQ; with PGMQ, whose names are short and plain, a readable part and
// a hash of it.
std::string rabbitmq_name(const Channel& channel);
std::string pgmq_name(const Channel& channel);

std::string body_of(const Message& message);

// The key, if the message is one for this channel.
std::optional<RowKey> key_in(const std::string& body, const Channel& channel);

}  // namespace pawl
