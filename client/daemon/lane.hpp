// May throw (the constructor). A lane: one session with the database, its duties, and when each is due again. It
// survives losses of the database: its work is committed there, and it keeps no state.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "duties.hpp"
#include "log.hpp"
#include "metrics.hpp"
#include "poll_interval.hpp"
#include "signal_event.hpp"
#include "waiter.hpp"

namespace pawl::daemon {

class Lane {
public:
    Lane(std::string name, Kind kind, const Settings& settings, const Log& log, Metrics& metrics);

    // Runs duties until stop(). Does not throw.
    void run();

    // Runs duties until none finds anything to do. False if a duty failed. Throws ConnectionLost.
    bool run_once();

    void stop() noexcept;

private:
    using Clock = std::chrono::steady_clock;
    struct Entry {
        Duty duty;
        PollInterval pace;
        Clock::time_point due;
        std::string complaint = {};  // the last problem logged
        Clock::time_point complained = {};
    };

    void connect_and_look();
    bool look_after(Entry& entry);
    bool look_whether_read_only();
    void look_whether_fitting();
    void complain(Entry& entry, const Error& problem) const;
    bool round();
    void count_gauges();
    void wait();
    void make_all_due();
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
    Waiter waiter_{ConnectionSettings{}};
    PollInterval reconnect_;
    std::vector<Entry> entries_;
    Clock::time_point look_again_{};
    Clock::time_point next_gauges_{};
    bool failed_ = false;
    bool read_only_ = false;
    std::string misfit_;
    std::string complaint_;  // the last connection problem logged
    Clock::time_point complained_{};
};

}  // namespace pawl::daemon
