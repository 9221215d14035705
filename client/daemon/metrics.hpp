// May throw (out of memory). What the lanes have done and are doing, for /metrics, /healthz and /readyz. Safe for threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "exposition.hpp"

namespace pawl::daemon {

class Metrics {
public:
    using Clock = std::chrono::steady_clock;

    void ran(const std::string& duty, std::int64_t done, std::chrono::duration<double> took);
    void failed(const std::string& duty);
    void connected(const std::string& lane);
    void disconnected(const std::string& lane, const std::string& why);

    // Why the lane's database cannot be written; empty: it can.
    void read_only(const std::string& lane, const std::string& why);

    // The lane's loop has come round; `may_take_long`: it runs handlers of users, which nobody can tell from stuck ones.
    void turned(const std::string& lane, bool may_take_long);

    // What the lane is about to do, for who asks why it does not turn; empty: it has done it.
    void doing(const std::string& lane, const std::string& what);

    // What the database holds, as read_gauges gives it; forgotten with the connection it came by.
    void gauges(const std::string& lane, std::string text);

    // Why the versions of what is installed do not fit to this program; empty: they do.
    void misfit(const std::string& why);
    void drain();

    // What others know, asked for each scrape; must be there as long as this is asked.
    void also(std::function<void(Exposition&)> source);

    // Every loop that must turn has done so within `patience`; `why` says which has not.
    bool alive(std::chrono::milliseconds patience, std::string& why) const;

    // Every lane that ever was has a connection, versions fit, and nothing ends.
    bool ready(std::string& why) const;

    // What all duties did together.
    std::uint64_t rows() const;

    // In the text format of Prometheus.
    std::string text() const;

private:
    struct Duty {
        std::uint64_t rows = 0;
        std::uint64_t errors = 0;
        Histogram took;
        std::uint64_t runs() const;
    };
    struct Lane {
        bool connected = false;
        bool may_take_long = false;
        std::uint64_t connects = 0;
        Clock::time_point turned = Clock::now();
        std::string doing;
        std::string why;
        std::string read_only;
        std::string gauges;
    };

    mutable std::mutex mutex_;
    std::map<std::string, Duty> duties_;
    std::map<std::string, Lane> lanes_;
    std::vector<std::function<void(Exposition&)>> sources_;
    std::string misfit_;
    bool draining_ = false;
};

}  // namespace pawl::daemon
