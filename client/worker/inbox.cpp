// May throw (the constructor). See inbox.hpp.
#include "inbox.hpp"

#include <algorithm>

#include <pawl/errors.hpp>

namespace pawl {
namespace {

constexpr std::chrono::milliseconds tending{1'000};      // heartbeats are answered at least so often
constexpr std::chrono::milliseconds shortest_look{10};   // where a queue must be asked
constexpr std::chrono::milliseconds longest_look{250};

}  // namespace

Inbox::Inbox(MessageSettings settings, ConnectionSettings database, Channel channel, int prefetch, const SignalEvent& arrived, Say say)
    : settings_(std::move(settings)),
      database_(std::move(database)),
      channel_(std::move(channel)),
      prefetch_(std::max(prefetch, 1)),
      arrived_(arrived),
      say_(std::move(say)),
      thread_([this](std::stop_token stop) { run(stop); }) {}

Inbox::~Inbox() {
    thread_.request_stop();
    poke_.set();
}

bool Inbox::connected() const {
    const std::lock_guard lock(mutex_);
    return connected_;
}

bool Inbox::just_connected() {
    const std::lock_guard lock(mutex_);
    return std::exchange(fresh_, false);
}

std::vector<Told> Inbox::take(std::size_t most) {
    const std::lock_guard lock(mutex_);
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(most, waiting_.size()));
    std::vector<Told> taken(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    return taken;
}

void Inbox::put_back(std::vector<Told> told) {
    const std::lock_guard lock(mutex_);
    for (auto one = told.rbegin(); one != told.rend(); ++one)
        if (one->subscription == subscription_) waiting_.push_front(std::move(*one));
}

void Inbox::settle(const std::vector<Told>& told) {
    {
        const std::lock_guard lock(mutex_);
        for (const Told& one : told)
            if (one.subscription == subscription_) settled_.push_back(one.tag);
    }
    poke_.set();
}

void Inbox::begin() {
    {
        const std::lock_guard lock(mutex_);
        ++subscription_;
        connected_ = fresh_ = true;
    }
    arrived_.set();
}

// What was received and not taken comes again by the next subscription.
void Inbox::end() noexcept {
    const std::lock_guard lock(mutex_);
    ++subscription_;
    connected_ = false;
    waiting_.clear();
    settled_.clear();
}

std::vector<std::uint64_t> Inbox::take_settled() {
    const std::lock_guard lock(mutex_);
    return std::exchange(settled_, {});
}

std::size_t Inbox::put_in(std::vector<Delivery> deliveries, Subscription& subscription) {
    for (const Delivery& delivery : deliveries) {
        auto key = key_in(delivery.body, channel_);
        if (!key) {
            say_("a message that is none of ours was refused");
            subscription.refuse(delivery.tag);
            continue;
        }
        const std::lock_guard lock(mutex_);
        waiting_.push_back({std::move(*key), delivery.tag, subscription_});
    }
    if (!deliveries.empty()) arrived_.set();
    return deliveries.size();
}

void Inbox::serve(std::stop_token stop, Subscription& subscription) {
    Pace look(shortest_look, longest_look);
    while (!stop.stop_requested()) {
        if (const auto tags = take_settled(); !tags.empty()) subscription.acknowledge(tags);
        std::size_t room;
        {
            const std::lock_guard lock(mutex_);
            room = static_cast<std::size_t>(prefetch_) - std::min(waiting_.size(), static_cast<std::size_t>(prefetch_));
        }
        // also with no room: a broker that hears nothing of us for long gives us up
        if (put_in(subscription.receive(static_cast<int>(room)), subscription) > 0) {
            look.found();
            continue;
        }
        // whoever makes room pokes
        const bool asked = subscription.socket() < 0;
        poke_.wait(room > 0 ? subscription.socket() : -1, asked && room > 0 ? look.idle() : tending);
    }
    if (const auto tags = take_settled(); !tags.empty()) subscription.acknowledge(tags);
}

void Inbox::run(std::stop_token stop) {
    Pace again(std::chrono::milliseconds(100), std::chrono::seconds(5));
    std::string complaint;
    while (!stop.stop_requested()) {
        try {
            const auto subscription = subscribe(settings_, database_, channel_, prefetch_);
            complaint.clear();
            again.found();
            begin();
            say_("messages come from " + settings_.provider);
            serve(stop, *subscription);
        } catch (const std::exception& problem) {
            end();
            // the same trouble is told once
            if (complaint != problem.what()) say_("no messages, work is looked for instead: " + std::string(problem.what()));
            complaint = problem.what();
            arrived_.set();
            poke_.wait(-1, again.idle());
        }
    }
    end();
}

}  // namespace pawl
