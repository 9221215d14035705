// Pure C++; does not throw. The time between two looks for work: short after work was found, doubled by every look
// without.
#pragma once

#include <algorithm>
#include <chrono>

namespace pawl {

class PollInterval {
public:
    using Wait = std::chrono::milliseconds;

    // Waits shorter than 1 ms become 1 ms; longest is at least shortest.
    PollInterval(Wait shortest, Wait longest) noexcept
        : shortest_(std::max(shortest, Wait(1))), longest_(std::max(longest, shortest_)), next_(shortest_) {}

    // Begins again with the shortest wait.
    void reset() noexcept { next_ = shortest_; }

    // Begins again with a fifth of the shortest wait: results were reported, and the work that they release appears as
    // soon as another process has moved its task on.
    void reset_shorter() noexcept { next_ = std::max(shortest_ / 5, Wait(1)); }

    // The wait before the next look; doubles the one after it.
    Wait advance() noexcept {
        const Wait now = next_;
        next_ = now > longest_ / 2 ? longest_ : now * 2;
        return now;
    }

    // What advance() would return.
    Wait current() const noexcept { return next_; }

private:
    Wait shortest_;
    Wait longest_;
    Wait next_;
};

}  // namespace pawl
