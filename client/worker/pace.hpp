// Pure C++; does not throw. How long to wait between two looks for work: short after work was found, longer and longer without.
#pragma once

#include <algorithm>
#include <chrono>

namespace pawl {

class Pace {
public:
    using Wait = std::chrono::milliseconds;

    Pace(Wait shortest, Wait longest) noexcept
        : shortest_(std::max(shortest, Wait(1))), longest_(std::max(longest, shortest_)), next_(shortest_) {}

    // There was work, so there may be more.
    void found() noexcept { next_ = shortest_; }

    // There was work, and what follows from it is likely to be somebody else's doing just now: it is there in no time.
    void follows() noexcept { next_ = std::max(shortest_ / 5, Wait(1)); }

    // The next wait; each is twice the one before.
    Wait idle() noexcept {
        const Wait now = next_;
        next_ = now > longest_ / 2 ? longest_ : now * 2;
        return now;
    }

    Wait next() const noexcept { return next_; }

private:
    Wait shortest_;
    Wait longest_;
    Wait next_;
};

}  // namespace pawl
