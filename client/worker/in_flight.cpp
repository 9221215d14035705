// May throw (out of memory).
#include "in_flight.hpp"

#include <algorithm>

namespace pawl {

std::size_t InFlight::add(std::vector<Job> jobs, std::chrono::steady_clock::time_point claimed_at) {
    std::size_t added = 0;
    {
        const std::lock_guard lock(mutex_);
        for (Job& job : jobs) {
            const bool known = std::any_of(all_.begin(), all_.end(), [&](const WorkPtr& work) {
                return work->job.key == job.key && work->job.token == job.token;
            });
            if (known) continue;
            auto work = std::make_shared<Work>();
            work->job = std::move(job);
            work->claimed_at = claimed_at;
            work->job.stop = work->cancel.get_token();
            all_.insert(work);
            waiting_.push_back(std::move(work));
            ++added;
        }
    }
    arrived_.notify_all();
    return added;
}

WorkPtr InFlight::next(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait(lock, stop, [&] { return !waiting_.empty(); })) return nullptr;
    if (stop.stop_requested()) return nullptr;
    WorkPtr work = std::move(waiting_.front());
    waiting_.pop_front();
    ++running_;
    return work;
}

void InFlight::finish(Finished finished) {
    {
        const std::lock_guard lock(mutex_);
        finished_.push_back(std::move(finished));
        --running_;
    }
    ended_.set();
}

std::vector<Finished> InFlight::take_finished() {
    const std::lock_guard lock(mutex_);
    return std::exchange(finished_, {});
}

void InFlight::return_finished(std::vector<Finished> finished) {
    const std::lock_guard lock(mutex_);
    std::move(finished.begin(), finished.end(), std::back_inserter(finished_));
}

void InFlight::remove(const std::vector<Finished>& reported) {
    const std::lock_guard lock(mutex_);
    for (const Finished& one : reported) all_.erase(one.work);
}

void InFlight::keep_only(const std::vector<WorkPtr>& known, const OwnedTokens& owned) {
    for (const WorkPtr& work : known) {
        if (owned.contains({work->job.key, work->job.token})) continue;
        work->cancel.request_stop();
        const std::lock_guard lock(mutex_);
        if (const auto found = std::find(waiting_.begin(), waiting_.end(), work); found != waiting_.end()) {
            waiting_.erase(found);
            all_.erase(work);
        }
    }
}

void InFlight::stop_all() {
    for (const WorkPtr& work : all()) work->cancel.request_stop();
}

void InFlight::stop_older(std::chrono::steady_clock::time_point time) {
    for (const WorkPtr& work : all())
        if (work->claimed_at < time) work->cancel.request_stop();
}

std::size_t InFlight::drop_waiting() {
    const std::lock_guard lock(mutex_);
    const std::size_t dropped = waiting_.size();
    for (const WorkPtr& work : waiting_) all_.erase(work);
    waiting_.clear();
    return dropped;
}

std::vector<WorkPtr> InFlight::all() const {
    const std::lock_guard lock(mutex_);
    return {all_.begin(), all_.end()};
}

std::size_t InFlight::size() const {
    const std::lock_guard lock(mutex_);
    return all_.size();
}

bool InFlight::idle() const {
    const std::lock_guard lock(mutex_);
    return running_ == 0 && finished_.empty();
}

std::vector<Finished> take_part(std::vector<Finished>& batch) {
    const auto traced = std::stable_partition(batch.begin(), batch.end(),
                                              [](const Finished& one) { return one.work->job.trace.empty(); });
    const auto end = traced == batch.begin() ? batch.begin() + 1 : traced;
    std::vector<Finished> part(std::make_move_iterator(batch.begin()), std::make_move_iterator(end));
    batch.erase(batch.begin(), end);
    return part;
}

}  // namespace pawl
