// Messages that announce claimable rows to workers, in place of the database's notifications. docs/providers.md says
// what they guarantee.
#pragma once

#include <chrono>
#include <string>

namespace pawl {

/// Which queue provider announces work.
struct MessageSettings {
    /// "database" (no messages: notifications and polling), "pgmq" or "rabbitmq".
    std::string provider = "database";

    /// The broker of rabbitmq: amqp://user:password@host:5672/vhost, or amqps://.
    std::string broker = {};

    /// PEM file of the authorities that an amqps broker's certificate is checked against; empty: the system's.
    std::string broker_ca = {};

    /// Time between two polls while messages come; at least 1 ms.
    std::chrono::milliseconds fallback_poll{5'000};

    /// For how long a message of pgmq that was read is hidden from other workers; at least 1 s.
    std::chrono::seconds visibility_timeout{30};

    bool enabled() const noexcept { return provider != "database"; }
};

/// @throws Error (22023, 0A000) if the provider is unknown, not in this build, or has no broker
void check(const MessageSettings& settings);

}  // namespace pawl
