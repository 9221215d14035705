// May throw (out of memory). What the lanes have done, for /metrics and /healthz. Safe for threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace pawl::daemon {

// A label of Prometheus.
std::string quoted(const std::string& label);

class Metrics {
public:
    void ran(const std::string& duty, std::int64_t done, std::chrono::duration<double> took);
    void failed(const std::string& duty);
    void connected(const std::string& lane);
    void disconnected(const std::string& lane, const std::string& why);

    // What the database holds, as read_gauges gives it; forgotten with the connection it came by.
    void gauges(const std::string& lane, std::string text);

    // Every lane that ever was has a connection; `why` says which has none.
    bool healthy(std::string& why) const;

    // What all duties did together.
    std::uint64_t rows() const;

    // In the text format of Prometheus.
    std::string text() const;

private:
    struct Duty {
        std::uint64_t runs = 0;
        std::uint64_t rows = 0;
        std::uint64_t errors = 0;
        double seconds = 0;
    };
    struct Lane {
        bool connected = false;
        std::uint64_t connects = 0;
        std::string why;
        std::string gauges;
    };

    mutable std::mutex mutex_;
    std::map<std::string, Duty> duties_;
    std::map<std::string, Lane> lanes_;
};

}  // namespace pawl::daemon
