// Pure C++; does not throw. How long to wait before failed work is retried. The server and the clients share this
// arithmetic.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pawl::core {

using Delay = std::chrono::microseconds;

// The delay after k attempts. none: 0; linear: base * k; exponential: base * multiplier^(k-1); fibonacci: base * F(k),
// F = 1, 1, 2, 3, 5.
enum class BackoffStrategy : std::uint8_t { none, linear, exponential, fibonacci };

// How a delay d is randomized, evenly. full: 0..d; equal: d/2..d; fraction: d*(1-f)..d*(1+f), at most the cap.
enum class Jitter : std::uint8_t { none, full, equal, fraction };

struct BackoffPolicy {
    BackoffStrategy strategy = BackoffStrategy::exponential;
    Jitter jitter = Jitter::fraction;
    double fraction = 0.1;
    double multiplier = 2;
    Delay base = std::chrono::seconds(1);
    Delay cap = std::chrono::seconds(60);
    std::int32_t max_attempts = 0;  // including the first one; 0: the policy sets no limit
};

inline constexpr std::string_view backoff_strategies = "none, linear, exponential, fibonacci";
inline constexpr std::string_view backoff_jitters = "none, full, equal, or a fraction from 0 to 1";

std::optional<BackoffStrategy> find_backoff_strategy(std::string_view name) noexcept;

// Finds none, full and equal by name. A fraction is a number and has no name.
std::optional<Jitter> find_jitter(std::string_view name) noexcept;

// Describes what is wrong with the numbers of a policy; null if nothing is.
const char* problem_of(const BackoffPolicy& policy) noexcept;

// Computes the delay without jitter, in whole milliseconds. The policy must have no problem. attempts counts the
// attempts made so far; values below 1 count as 1.
Delay backoff(const BackoffPolicy& policy, std::int64_t attempts) noexcept;

// Computes the delay to wait. `asked` is the delay that the failed party asked for (Retry-After): it replaces the
// formula and the jitter, is limited by the same cap, and counts as 0 if it is negative. `random` is evenly distributed
// over 0 <= random < 1.
Delay backoff(const BackoffPolicy& policy, std::int64_t attempts, std::optional<Delay> asked, double random) noexcept;

}  // namespace pawl::core
