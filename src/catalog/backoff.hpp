// May ereport; owns nothing. Backoff policies as the catalog stores them.
#pragma once

#include <optional>

#include "core/backoff.hpp"
#include "pg/postgres.hpp"

namespace pawl {

// Reads {"strategy", "base", "cap", "multiplier", "jitter", "max_attempts"}; omitted members have their defaults.
// 22023: the policy is invalid.
core::BackoffPolicy read_backoff(Jsonb* policy);

// An interval as a delay; a month counts as 30 days. `name` is used in errors.
core::Delay delay_of(const Interval* interval, const char* name);

// The delay to wait after this many attempts, with jitter from the server's random numbers.
core::Delay next_delay(const core::BackoffPolicy& policy, int64 attempts, std::optional<core::Delay> asked);

}  // namespace pawl
