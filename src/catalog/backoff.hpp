// May ereport; owns nothing. Backoff policies as the database keeps them.
#pragma once

#include <optional>

#include "core/backoff.hpp"
#include "pg/postgres.hpp"

namespace pawl {

// Reads {"strategy", "base", "cap", "multiplier", "jitter", "max_attempts"}; what is left out has its default. 22023:
// it says something that cannot be.
core::BackoffPolicy read_backoff(Jsonb* policy);

// An interval as a delay; a month is 30 days. `name` is what errors call it.
core::Delay delay_of(const Interval* interval, const char* name);

// The delay to wait after so many attempts, jitter by the server's random numbers.
core::Delay next_delay(const core::BackoffPolicy& policy, int64 attempts, std::optional<core::Delay> asked);

}  // namespace pawl
