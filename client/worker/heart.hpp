// May throw (the constructor). Keeps the leases alive from a thread and a connection of its own, and tells handlers what was lost.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "hand.hpp"
#include "signal_event.hpp"
#include "work_source.hpp"

namespace pawl {

class Heart {
public:
    Heart(const WorkerSettings& settings, const WorkSource& source, Hand& hand, std::function<void(const std::string&)> say);
    ~Heart();
    Heart(const Heart&) = delete;
    Heart& operator=(const Heart&) = delete;

private:
    void beat(std::stop_token stop);

    const WorkerSettings& settings_;
    std::unique_ptr<WorkSource> source_;
    Hand& hand_;
    std::function<void(const std::string&)> say_;
    SignalEvent ended_;
    std::jthread thread_;
};

}  // namespace pawl
