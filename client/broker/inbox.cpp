// May throw (the constructor).
#include "inbox.hpp"

#include <algorithm>

#include <pawl/errors.hpp>

namespace pawl {
namespace {

constexpr std::chrono::milliseconds keep_alive_interval{
    1'000};                                             // heartbeats of the broker are answered at least so often
constexpr std::chrono::milliseconds shortest_poll{10};  // of a queue without a socket
constexpr std::chrono::milliseconds longest_poll{250};

}  // namespace

Inbox::Inbox(MessageSettings settings, ConnectionSettings database, Channel channel, int prefetch,
             const SignalEvent& arrived, Log log)
    : settings_(std::move(settings)),
      database_(std::move(database)),
      channel_(std::move(channel)),
      prefetch_(std::max(prefetch, 1)),
      arrived_(arrived),
      log_(std::move(log)),
      thread_([this](std::stop_token stop) { run(stop); }) {}

Inbox::~Inbox() {
    thread_.request_stop();
    wake_up_.set();
}

bool Inbox::connected() const {
    const std::lock_guard lock(mutex_);
    return connected_;
}

bool Inbox::take_connected() {
    const std::lock_guard lock(mutex_);
    return std::exchange(just_connected_, false);
}

std::vector<Announced> Inbox::take(std::size_t limit) {
    const std::lock_guard lock(mutex_);
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(limit, waiting_.size()));
    std::vector<Announced> taken(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    return taken;
}

void Inbox::put_back(std::vector<Announced> announced) {
    const std::lock_guard lock(mutex_);
    for (auto one = announced.rbegin(); one != announced.rend(); ++one)
        if (one->subscription == subscription_) waiting_.push_front(std::move(*one));
}

void Inbox::acknowledge(const std::vector<Announced>& announced) {
    {
        const std::lock_guard lock(mutex_);
        for (const Announced& one : announced)
            if (one.subscription == subscription_) acknowledged_.push_back(one.tag);
    }
    wake_up_.set();
}

void Inbox::reject(const Announced& announced) {
    {
        const std::lock_guard lock(mutex_);
        if (announced.subscription == subscription_) rejected_.push_back(announced.tag);
    }
    wake_up_.set();
}

void Inbox::begin() {
    {
        const std::lock_guard lock(mutex_);
        ++subscription_;
        connected_ = just_connected_ = true;
    }
    arrived_.set();
}

// Messages that were received and not acknowledged come again with the next subscription.
void Inbox::end() noexcept {
    const std::lock_guard lock(mutex_);
    ++subscription_;
    connected_ = false;
    waiting_.clear();
    acknowledged_.clear();
    rejected_.clear();
}

// Tells the broker which messages it can forget.
void Inbox::report_outcomes(Subscription& subscription) {
    std::vector<std::uint64_t> acknowledged, rejected;
    {
        const std::lock_guard lock(mutex_);
        acknowledged.swap(acknowledged_);
        rejected.swap(rejected_);
    }
    if (!acknowledged.empty()) subscription.acknowledge(acknowledged);
    for (const std::uint64_t tag : rejected) subscription.reject(tag);
}

std::size_t Inbox::accept(std::vector<Delivery> deliveries, Subscription& subscription) {
    for (const Delivery& delivery : deliveries) {
        auto key = key_in(delivery.body, channel_);
        if (!key) {
            log_("rejected a message that does not belong to this queue");
            subscription.reject(delivery.tag);
            continue;
        }
        const std::lock_guard lock(mutex_);
        waiting_.push_back({std::move(*key), delivery.tag, subscription_});
    }
    if (!deliveries.empty()) arrived_.set();
    return deliveries.size();
}

void Inbox::serve(std::stop_token stop, Subscription& subscription) {
    PollInterval poll(shortest_poll, longest_poll);
    while (!stop.stop_requested()) {
        report_outcomes(subscription);
        std::size_t room;
        {
            const std::lock_guard lock(mutex_);
            room = static_cast<std::size_t>(prefetch_) - std::min(waiting_.size(), static_cast<std::size_t>(prefetch_));
        }
        // also without room: a broker closes connections that are silent for long
        if (accept(subscription.receive(static_cast<int>(room)), subscription) > 0) {
            poll.reset();
            continue;
        }
        // acknowledge() makes room and sets wake_up_
        const bool polled = subscription.socket() < 0;
        wake_up_.wait(room > 0 ? subscription.socket() : -1, polled && room > 0 ? poll.advance() : keep_alive_interval);
    }
    report_outcomes(subscription);
}

void Inbox::run(std::stop_token stop) {
    PollInterval again(std::chrono::milliseconds(100), std::chrono::seconds(5));
    std::string logged;
    while (!stop.stop_requested()) {
        try {
            const auto subscription = subscribe(settings_, database_, channel_, prefetch_);
            logged.clear();
            again.reset();
            begin();
            log_("messages come from " + settings_.provider);
            serve(stop, *subscription);
        } catch (const std::exception& problem) {
            end();
            // the same problem is logged once
            if (logged != problem.what()) log_("no messages, polling for work instead: " + std::string(problem.what()));
            logged = problem.what();
            arrived_.set();
            wake_up_.wait(-1, again.advance());
        }
    }
    end();
}

}  // namespace pawl
