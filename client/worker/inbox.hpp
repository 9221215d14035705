// May throw (the constructor). The messages that a worker was sent, received by a thread of its own. Safe for threads.
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
#include "pace.hpp"
#include "signal_event.hpp"

namespace pawl {

// Where a message came from: a tag means something only to the subscription that gave it.
struct Told {
    RowKey key;
    std::uint64_t tag = 0;
    std::uint64_t subscription = 0;
};

class Inbox {
public:
    using Say = std::function<void(const std::string&)>;

    // `arrived` is set when there is something to look at: a message, or that messages come again.
    Inbox(MessageSettings settings, ConnectionSettings database, Channel channel, int prefetch, const SignalEvent& arrived, Say say);
    ~Inbox();
    Inbox(const Inbox&) = delete;
    Inbox& operator=(const Inbox&) = delete;

    // While messages come; otherwise work must be looked for.
    bool connected() const;

    // True once after messages have begun to come: until then some were lost, or never sent.
    bool just_connected();

    std::vector<Told> take(std::size_t most);

    // Nothing became of it: they are first again.
    void put_back(std::vector<Told> told);

    // The database has answered: acknowledged soon. Those of a subscription that is gone come again, and find their rows taken.
    void settle(const std::vector<Told>& told);

private:
    void run(std::stop_token stop);
    void serve(std::stop_token stop, Subscription& subscription);
    void begin();
    void end() noexcept;
    std::vector<std::uint64_t> take_settled();
    std::size_t put_in(std::vector<Delivery> deliveries, Subscription& subscription);

    const MessageSettings settings_;
    const ConnectionSettings database_;
    const Channel channel_;
    const int prefetch_;
    const SignalEvent& arrived_;
    const Say say_;
    SignalEvent poke_;
    mutable std::mutex mutex_;
    std::deque<Told> waiting_;
    std::vector<std::uint64_t> settled_;
    std::uint64_t subscription_ = 0;
    bool connected_ = false;
    bool fresh_ = false;
    std::jthread thread_;
};

}  // namespace pawl
