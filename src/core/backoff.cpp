// Pure C++; does not throw. See backoff.hpp.
#include "backoff.hpp"

#include <algorithm>
#include <cmath>

namespace pawl::core {

namespace {

// Saturates at the cap, so that nothing overflows.
Delay times(Delay base, std::int64_t factor, Delay cap) noexcept {
    if (base.count() == 0) return base;
    return factor > cap.count() / base.count() ? cap : std::min(base * factor, cap);
}

Delay fibonacci(Delay base, std::int64_t attempts, Delay cap) noexcept {
    std::int64_t current = 1;
    std::int64_t next = 1;
    for (std::int64_t k = 1; k < attempts; ++k) {
        if (times(base, current, cap) == cap || base.count() == 0) break;
        next += current;
        current = next - current;
    }
    return times(base, current, cap);
}

// Powers of multipliers like 1.2 may come out slightly below the whole number that they stand for.
Delay exponential(const BackoffPolicy& policy, std::int64_t attempts) noexcept {
    if (policy.base.count() == 0) return policy.base;
    const double exact =
        static_cast<double>(policy.base.count()) * std::pow(policy.multiplier, static_cast<double>(attempts - 1));
    const double delay = exact * (1 + 1e-13);
    return delay < static_cast<double>(policy.cap.count()) ? Delay(static_cast<Delay::rep>(delay)) : policy.cap;
}

Delay by_strategy(const BackoffPolicy& policy, std::int64_t attempts) noexcept {
    switch (policy.strategy) {
        case BackoffStrategy::none:
            return Delay(0);
        case BackoffStrategy::linear:
            return times(policy.base, attempts, policy.cap);
        case BackoffStrategy::exponential:
            return exponential(policy, attempts);
        case BackoffStrategy::fibonacci:
            return fibonacci(policy.base, attempts, policy.cap);
    }
    return Delay(0);
}

Delay spread(Delay from, Delay to, double random) noexcept {
    const double share = std::clamp(random, 0.0, 1.0) * static_cast<double>((to - from).count());
    return std::clamp(from + Delay(std::llround(share)), from, to);
}

Delay with_jitter(const BackoffPolicy& policy, Delay delay, double random) noexcept {
    switch (policy.jitter) {
        case Jitter::none:
            return delay;
        case Jitter::full:
            return spread(Delay(0), delay, random);
        case Jitter::equal:
            return spread(delay / 2, delay, random);
        case Jitter::fraction:
            break;
    }
    const Delay width(std::llround(static_cast<double>(delay.count()) * policy.fraction));
    return std::min(spread(delay - width, delay + width, random), policy.cap);
}

}  // namespace

std::optional<BackoffStrategy> find_backoff_strategy(std::string_view name) noexcept {
    if (name == "none") return BackoffStrategy::none;
    if (name == "linear") return BackoffStrategy::linear;
    if (name == "exponential") return BackoffStrategy::exponential;
    if (name == "fibonacci") return BackoffStrategy::fibonacci;
    return std::nullopt;
}

std::optional<Jitter> find_jitter(std::string_view name) noexcept {
    if (name == "none") return Jitter::none;
    if (name == "full") return Jitter::full;
    if (name == "equal") return Jitter::equal;
    return std::nullopt;
}

const char* problem_of(const BackoffPolicy& policy) noexcept {
    constexpr Delay longest = std::chrono::hours(24) * 36525;  // the delay plus its jitter then fits every clock type
    if (policy.base.count() < 0) return "base must not be negative";
    if (policy.cap.count() < 0) return "cap must not be negative";
    if (policy.base > longest || policy.cap > longest) return "base and cap must not be longer than 100 years";
    if (!(policy.multiplier >= 1) || std::isinf(policy.multiplier)) return "multiplier must be at least 1";
    if (!(policy.fraction >= 0 && policy.fraction <= 1)) return "jitter must be from 0 to 1";
    if (policy.max_attempts < 0) return "max_attempts must be 1 or more";
    return nullptr;
}

Delay backoff(const BackoffPolicy& policy, std::int64_t attempts) noexcept {
    const Delay delay = by_strategy(policy, std::max<std::int64_t>(attempts, 1));
    return std::chrono::floor<std::chrono::milliseconds>(std::min(delay, policy.cap));
}

Delay backoff(const BackoffPolicy& policy, std::int64_t attempts, std::optional<Delay> asked, double random) noexcept {
    if (asked) return std::clamp(*asked, Delay(0), policy.cap);
    return with_jitter(policy, backoff(policy, attempts), random);
}

}  // namespace pawl::core
