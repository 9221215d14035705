// May throw (out of memory). What the lanes have done and are doing, for /metrics, /healthz and /readyz. Thread-safe.
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

    // The lane's loop has begun a round. may_take_long: it runs users' handlers, so that a long round is no sign of a
    // stuck lane.
    void turned(const std::string& lane, bool may_take_long);

    // The duty that the lane runs now, for /healthz; empty: none.
    void doing(const std::string& lane, const std::string& what);

    // The text of read_gauges(). Dropped when the lane loses its connection.
    void gauges(const std::string& lane, std::string text);

    // Why the versions of the installed extensions do not match this program; empty: they match.
    void misfit(const std::string& why);
    void drain();

    // What is done in one of several databases: its samples get the label database, and this object is ready if one of
    // them is. The part must exist until it is taken away.
    void add_part(const std::string& database, Metrics& part);
    void take_part_away(const std::string& database);

    // Of one of the databases, as below; false, if there is none of that name.
    bool part_alive(const std::string& database, std::chrono::milliseconds patience, std::string& why) const;
    bool part_ready(const std::string& database, std::string& why) const;

    // Adds a source that is called for each scrape, as long as this object exists.
    void also(std::function<void(Exposition&)> source);

    // True if every lane has begun a round within `patience`. If not, `why` names the lane.
    bool alive(std::chrono::milliseconds patience, std::string& why) const;

    // True if every lane is connected and can write, versions match, and pawld does not drain. If not, `why` says so.
    bool ready(std::string& why) const;

    // Rows that all duties have handled.
    std::uint64_t rows() const;

    // In the text format of Prometheus.
    std::string text() const;

private:
    std::string own_text() const;

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
    std::map<std::string, Metrics*> parts_;
    std::string misfit_;
    bool draining_ = false;
};

}  // namespace pawl::daemon
