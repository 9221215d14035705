// Messages that tell workers of claimable rows, instead of the database: docs/providers.md says what they promise.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace pawl {

struct MessageSettings {
    // database (no messages), pgmq or rabbitmq.
    std::string provider = "database";

    // Of rabbitmq: amqp://user:password@host:5672/vhost, or amqps://.
    std::string broker = {};

    // PEM file of the authorities that the broker's certificate is checked against; empty: the system's.
    std::string broker_ca = {};

    // How often work is looked for without being told of it, while messages come.
    std::chrono::milliseconds fallback_poll{5'000};

    // For how long a message of pgmq that was read stays hidden from others.
    std::chrono::seconds hidden{30};

    bool any() const noexcept { return provider != "database"; }
};

// Throws Error where there is no such provider, where this build lacks it, or where it is not told where its broker is.
void check(const MessageSettings& settings);

// PAWL_PROVIDER, PAWL_BROKER, PAWL_BROKER_CA, PAWL_FALLBACK_POLL_MS.
MessageSettings messages_from_environment();

}  // namespace pawl
