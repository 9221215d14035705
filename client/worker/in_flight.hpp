// May throw (out of memory). The in-flight work of a worker: claimed and not yet reported. Each job waits for a thread,
// runs, or is finished and waits for its report. All methods are thread-safe.
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

// A claimed job. Shared by the loop, the thread that runs it and the heartbeat.
struct Work {
    Job job;
    std::stop_source cancel;                           // of job.stop
    std::chrono::steady_clock::time_point claimed_at;  // taken before the claim was sent: the lease is not older
};
using WorkPtr = std::shared_ptr<Work>;

// given_back: the handler was asked to stop and stopped, so that nothing is reported.
enum class Outcome { success, failure, permanent_failure, given_back };

// What a handler has returned or thrown.
struct Finished {
    WorkPtr work = {};
    Outcome outcome = Outcome::success;
    nlohmann::json value = nullptr;  // the result, or {"message": ...}
    std::optional<std::chrono::milliseconds> retry_after = std::nullopt;
};

// Fencing tokens by key, as (key, token).
using OwnedTokens = std::set<std::pair<std::string, std::int64_t>>;

class InFlight {
public:
    // `ended` is set whenever a handler ends; it must outlive this object.
    explicit InFlight(const SignalEvent& ended) : ended_(ended) {}

    // Adds jobs that were claimed at `claimed_at`; those already in flight (same key and token) are skipped. Returns
    // how many were new.
    std::size_t add(std::vector<Job> jobs, std::chrono::steady_clock::time_point claimed_at);

    // Waits for a job to run. Null when `stop` is requested.
    WorkPtr next(std::stop_token stop);

    // Ends a job that next() returned.
    void finish(Finished finished);

    // Takes all results that were not taken yet. Their jobs stay in flight until remove().
    std::vector<Finished> take_finished();

    // Puts back results that could not be reported.
    void return_finished(std::vector<Finished> finished);

    void remove(const std::vector<Finished>& reported);

    // Asks each of `known` whose key and token are not in `owned` to stop, and removes it if it has not begun.
    // `known` is what all() returned before the server was asked for `owned`.
    void keep_only(const std::vector<WorkPtr>& known, const OwnedTokens& owned);

    // Ask handlers to stop: of all jobs, or of those claimed before `time`.
    void stop_all();
    void stop_older(std::chrono::steady_clock::time_point time);

    // Removes what has not begun; returns how many jobs.
    std::size_t drop_waiting();

    std::vector<WorkPtr> all() const;
    std::size_t size() const;

    // True if no handler runs and no result waits for its report.
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

// Takes what is reported together out of `batch`: first everything without a trace, then result by result, because a
// transaction belongs to one span.
std::vector<Finished> take_part(std::vector<Finished>& batch);

}  // namespace pawl
