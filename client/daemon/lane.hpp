// May throw (the constructor). A lane: one session with the database, its duties, and when each is looked at again. It lives through
// losses of the database; what it does is committed or undone there, so it has nothing to lose itself.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "duties.hpp"
#include "log.hpp"
#include "metrics.hpp"
#include "pace.hpp"
#include "signal_event.hpp"
#include "sleeper.hpp"

namespace pawl::daemon {

class Lane {
public:
    Lane(std::string name, Kind kind, const Settings& settings, const Log& log, Metrics& metrics);

    // Until stop().
    void run();

    // Until a whole round finds nothing to do. False if a duty failed; throws ConnectionLost.
    bool run_once();

    void stop() noexcept;

private:
    using Clock = std::chrono::steady_clock;
    struct Entry {
        Duty duty;
        Pace pace;
        Clock::time_point due;
        std::string complaint = {};         // the last problem that was logged
        Clock::time_point complained = {};
    };

    void connect_and_look();
    bool look_after(Entry& entry);
    bool look_whether_read_only();
    void complain(Entry& entry, const Error& problem) const;
    bool round();
    void count_gauges();
    void wait();
    void look_at_all();
    std::vector<std::string> relations() const;
    void lost(const std::string& why);

    std::string name_;
    Kind kind_;
    const Settings& settings_;
    const Log& log_;
    Metrics& metrics_;
    SignalEvent wake_up_;
    std::atomic<bool> stopping_{false};
    std::unique_ptr<pqxx::connection> connection_;
    Sleeper sleeper_;
    Pace reconnect_;
    std::vector<Entry> entries_;
    Clock::time_point look_again_{};
    Clock::time_point next_gauges_{};
    bool failed_ = false;
    bool read_only_ = false;
    std::string complaint_;                 // why there was no connection, as it was logged last
    Clock::time_point complained_{};
};

}  // namespace pawl::daemon
