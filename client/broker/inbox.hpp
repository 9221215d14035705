// May throw (the constructor). Receives a worker's messages on a thread of its own. All methods are thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "broker.hpp"
#include "poll_interval.hpp"
#include "signal_event.hpp"

namespace pawl {

// A row that a message has announced as claimable. The tag is valid for the subscription of that number only.
struct Announced {
    RowKey key;
    std::uint64_t tag = 0;
    std::uint64_t subscription = 0;
};

class Inbox {
public:
    using Log = std::function<void(const std::string&)>;

    // Subscribes, and again after each loss of the broker. `arrived` is set when there are messages, and when the state
    // of the subscription changes; it must outlive the inbox. `log` is called on the inbox's thread.
    Inbox(MessageSettings settings, ConnectionSettings database, Channel channel, int prefetch,
          const SignalEvent& arrived, Log log);

    // Acknowledges what can be acknowledged and ends. Messages that were not acknowledged go to other workers.
    ~Inbox();
    Inbox(const Inbox&) = delete;
    Inbox& operator=(const Inbox&) = delete;

    // True while messages come. If false, poll for work.
    bool connected() const;

    // True once after each subscription has begun: earlier messages were lost or never sent, so poll once.
    bool take_connected();

    // Takes up to `limit` messages out.
    std::vector<Announced> take(std::size_t limit);

    // Puts messages back to the front, if their subscription still exists.
    void put_back(std::vector<Announced> announced);

    // Acknowledges soon, on the inbox's thread. Messages of a subscription that has ended come again, and find their
    // rows claimed.
    void acknowledge(const std::vector<Announced>& announced);

    // Rejects soon, on the inbox's thread, so that the message does not come again.
    void reject(const Announced& announced);

private:
    void run(std::stop_token stop);
    void serve(std::stop_token stop, Subscription& subscription);
    void begin();
    void end() noexcept;
    void report_outcomes(Subscription& subscription);
    std::size_t accept(std::vector<Delivery> deliveries, Subscription& subscription);

    const MessageSettings settings_;
    const ConnectionSettings database_;
    const Channel channel_;
    const int prefetch_;
    const SignalEvent& arrived_;
    const Log log_;
    SignalEvent wake_up_;
    mutable std::mutex mutex_;
    std::deque<Announced> waiting_;
    std::vector<std::uint64_t> acknowledged_, rejected_;
    std::uint64_t subscription_ = 0;
    bool connected_ = false;
    bool just_connected_ = false;
    std::jthread thread_;
};

}  // namespace pawl
