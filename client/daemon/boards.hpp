// May throw. Job boards of which pawld is a conductor, each on a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include <pawl/conductor.hpp>

#include "log.hpp"
#include "metrics.hpp"
#include "poll_interval.hpp"
#include "settings.hpp"
#include "signal_event.hpp"

namespace pawl::daemon {

class Board {
public:
    Board(const std::string& name, const Settings& settings, const Log& log, Metrics& metrics);
    Board(const Board&) = delete;
    Board& operator=(const Board&) = delete;

    // Works until stop(), then returns in-flight jobs to the board. Their flows continue. Does not throw.
    void run();
    void stop() noexcept;

private:
    void note(const SagaJob& job, JobEvent event);
    void log_message(const std::string& message);

    const std::string name_;
    const Log& log_;
    Metrics& metrics_;
    PollInterval reconnect_;
    SignalEvent wake_up_;
    std::atomic<bool> stopping_{false};
    std::mutex saying_;
    std::string said_;
    std::chrono::steady_clock::time_point said_at_{};
    Conductor conductor_;
};

}  // namespace pawl::daemon
