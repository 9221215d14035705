// May throw (the constructor). Publishes messages about rows that became claimable. The database keeps its position,
// which advances when the broker has confirmed. Any number of daemons can run one: they take turns.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <pqxx/pqxx>

#include "broker.hpp"
#include "log.hpp"
#include "metrics.hpp"
#include "poll_interval.hpp"
#include "settings.hpp"
#include "signal_event.hpp"
#include "waiter.hpp"

namespace pawl::daemon {

struct PublisherCounts {
    std::uint64_t published = 0;   // messages that the broker confirmed
    std::uint64_t unroutable = 0;  // of these, for queues without a subscriber
    std::uint64_t batches = 0;
    std::uint64_t failures = 0;  // of the broker; the events were read again
    std::uint64_t connects = 0;  // to the broker
    bool connected = false;      // to the broker
};

class Publisher {
public:
    Publisher(const Settings& settings, const Log& log, Metrics& metrics);
    Publisher(const Publisher&) = delete;
    Publisher& operator=(const Publisher&) = delete;

    // Works until stop(). Does not throw.
    void run();
    void stop() noexcept;

    PublisherCounts counts() const;

private:
    void connect_again();
    void find_consumer();
    bool publish();
    void rest();
    template <typename Change>
    void count(Change&& change);
    void lost(const std::string& what, const std::string& why, PollInterval& pace);

    const Settings& settings_;
    const Log& log_;
    Metrics& metrics_;
    PollInterval pace_;
    PollInterval database_again_;
    PollInterval broker_again_;
    SignalEvent wake_up_;
    std::atomic<bool> stopping_{false};
    std::unique_ptr<pqxx::connection> connection_;
    std::unique_ptr<BrokerPublisher> broker_;
    bool broker_connected_ = false;
    Waiter waiter_{ConnectionSettings{}};
    mutable std::mutex mutex_;
    PublisherCounts counts_;
};

}  // namespace pawl::daemon
