// May throw (out of memory). The work that a worker has in hand: waiting, running, finished and not yet reported. Safe for threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <pawl/worker.hpp>

#include "signal_event.hpp"

namespace pawl {

struct Work {
    Job job;
    std::stop_source cancel;
    std::chrono::steady_clock::time_point since;  // its lease is not older than this
};
using WorkPtr = std::shared_ptr<Work>;

// Given back: the handler was told to stop, and did; nothing is reported.
enum class Outcome { success, failure, permanent_failure, given_back };

struct Finished {
    WorkPtr work = {};
    Outcome outcome = Outcome::success;
    nlohmann::json value = nullptr;  // the result, or {"message": ...}
    std::optional<std::chrono::milliseconds> asked = std::nullopt;
    std::chrono::milliseconds took{0};
};

class Hand {
public:
    // The event is set whenever a handler ends.
    explicit Hand(const SignalEvent& ended) : ended_(ended) {}

    // Takes jobs in that were asked for at `since`, but those that are in hand already; returns how many were new.
    std::size_t add(std::vector<Job> jobs, std::chrono::steady_clock::time_point since);

    // The next job to run; waits for it. Null when `stop` is requested.
    WorkPtr take(std::stop_token stop);
    void finish(Finished finished);

    // What handlers have finished; it stays in hand until settled.
    std::vector<Finished> finished();
    void put_back(std::vector<Finished> finished);
    void settle(const std::vector<Finished>& reported);

    // Asks everything that is not among `held` to stop: `known` is what was in hand before the server was asked.
    void keep_only(const std::vector<WorkPtr>& known, const std::set<std::pair<std::string, std::int64_t>>& held);
    void stop_all();
    void stop_older(std::chrono::steady_clock::time_point than);

    // Gives up what has not begun; returns how much that was.
    std::size_t drop_waiting();

    std::vector<WorkPtr> all() const;
    std::size_t size() const;

    // Nothing runs, and nothing waits to be reported.
    bool idle() const;

private:
    const SignalEvent& ended_;
    mutable std::mutex mutex_;
    std::condition_variable_any arrived_;
    std::deque<WorkPtr> waiting_;
    std::vector<Finished> finished_;
    std::set<WorkPtr> all_;
    std::size_t running_ = 0;
};

}  // namespace pawl
