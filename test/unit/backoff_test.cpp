// Delays before the next attempt: the formulas, their limits, and the cases of test/conformance/dag.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "core/backoff.hpp"
#include "support.hpp"

namespace pawl::test {
namespace {

using core::BackoffPolicy;
using core::BackoffStrategy;
using core::Delay;
using core::Jitter;
using nlohmann::json;
using std::chrono::milliseconds;

constexpr BackoffStrategy strategies[] = {BackoffStrategy::none, BackoffStrategy::linear, BackoffStrategy::exponential,
                                          BackoffStrategy::fibonacci};
constexpr std::int64_t extreme_attempts[] = {1,
                                             2,
                                             63,
                                             64,
                                             65,
                                             93,
                                             1024,
                                             1100,
                                             std::numeric_limits<std::int32_t>::max(),
                                             std::numeric_limits<std::int64_t>::max()};

BackoffPolicy policy(BackoffStrategy strategy, Delay base, Delay cap, double multiplier = 2) {
    BackoffPolicy made;
    made.strategy = strategy;
    made.jitter = Jitter::none;
    made.base = base;
    made.cap = cap;
    made.multiplier = multiplier;
    return made;
}

// Policies from one end of what is allowed to the other.
BackoffPolicy random_policy(std::mt19937_64& engine) {
    const auto delay = [&] {
        const int bits = std::uniform_int_distribution<int>(0, 51)(engine);
        return Delay(std::uniform_int_distribution<std::int64_t>(0, std::int64_t{1} << bits)(engine));
    };
    const double multiplier = 1 + std::exponential_distribution<double>(0.5)(engine);
    return policy(strategies[std::uniform_int_distribution<int>(0, 3)(engine)], delay(), delay(), multiplier);
}

std::vector<std::int64_t> in_milliseconds(const BackoffPolicy& made, int attempts) {
    std::vector<std::int64_t> delays;
    for (int k = 1; k <= attempts; ++k) delays.push_back(core::backoff(made, k).count() / 1000);
    return delays;
}

TEST(Backoff, StrategiesGrowAsTheyAreNamed) {
    using Delays = std::vector<std::int64_t>;
    const milliseconds base(100);
    const milliseconds cap(1000);
    EXPECT_EQ(in_milliseconds(policy(BackoffStrategy::none, base, cap), 3), (Delays{0, 0, 0}));
    EXPECT_EQ(in_milliseconds(policy(BackoffStrategy::linear, base, cap), 12),
              (Delays{100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1000, 1000}));
    EXPECT_EQ(in_milliseconds(policy(BackoffStrategy::exponential, base, cap), 6),
              (Delays{100, 200, 400, 800, 1000, 1000}));
    EXPECT_EQ(in_milliseconds(policy(BackoffStrategy::exponential, base, cap, 1.2), 4), (Delays{100, 120, 144, 172}));
    EXPECT_EQ(in_milliseconds(policy(BackoffStrategy::fibonacci, base, cap), 8),
              (Delays{100, 100, 200, 300, 500, 800, 1000, 1000}));
}

TEST(Backoff, DefaultsAreThoseDocumented) {
    const BackoffPolicy made;
    EXPECT_EQ(core::problem_of(made), nullptr);
    EXPECT_EQ(in_milliseconds(made, 7), (std::vector<std::int64_t>{1000, 2000, 4000, 8000, 16000, 32000, 60000}));
    EXPECT_EQ(core::backoff(made, 1, std::nullopt, 0.0), milliseconds(900));
    EXPECT_EQ(core::backoff(made, 1, std::nullopt, 0.5), milliseconds(1000));
    EXPECT_LE(core::backoff(made, 1, std::nullopt, std::nextafter(1.0, 0.0)), milliseconds(1100));
    EXPECT_EQ(core::backoff(made, 9, std::nullopt, 0.99), made.cap);
}

TEST(Backoff, IsWholeMillisecondsRoundedDown) {
    EXPECT_EQ(core::backoff(policy(BackoffStrategy::linear, Delay(1999), std::chrono::hours(1)), 1), milliseconds(1));
    EXPECT_EQ(core::backoff(policy(BackoffStrategy::linear, Delay(1999), Delay(3500)), 5), milliseconds(3));
    // 1.2 has no exact binary form; its cube times a second is 1728 ms all the same
    EXPECT_EQ(
        core::backoff(policy(BackoffStrategy::exponential, std::chrono::seconds(1), std::chrono::hours(1), 1.2), 4),
        milliseconds(1728));
}

TEST(Backoff, NeverFallsWithAttemptsNorPassesTheCap) {
    std::mt19937_64 engine(20);
    for (int i = 0; i < 2000; ++i) {
        const BackoffPolicy made = random_policy(engine);
        ASSERT_EQ(core::problem_of(made), nullptr);
        Delay last(0);
        for (std::int64_t k = 0; k <= 100; ++k) {
            const Delay delay = core::backoff(made, k);
            ASSERT_GE(delay, last) << "policy " << i << ", attempts " << k;
            ASSERT_LE(delay, made.cap);
            ASSERT_EQ(delay.count() % 1000, 0);
            last = delay;
        }
        for (const std::int64_t k : extreme_attempts) {
            ASSERT_LE(core::backoff(made, k), made.cap) << "policy " << i << ", attempts " << k;
            if (k > 100) {
                ASSERT_GE(core::backoff(made, k), last) << "policy " << i << ", attempts " << k;
            }
        }
        EXPECT_EQ(core::backoff(made, std::numeric_limits<std::int64_t>::min()), core::backoff(made, 1));
    }
}

TEST(Backoff, GrowsUpToTheCapWhateverTheAttempts) {
    const Delay cap = std::chrono::hours(24);
    for (const BackoffStrategy strategy :
         {BackoffStrategy::linear, BackoffStrategy::exponential, BackoffStrategy::fibonacci})
        for (const std::int64_t k : {std::int64_t{1'000'000}, extreme_attempts[8], extreme_attempts[9]})
            EXPECT_EQ(core::backoff(policy(strategy, std::chrono::seconds(1), cap), k), cap);
}

TEST(Backoff, JitterKeepsItsBounds) {
    std::mt19937_64 engine(21);
    std::uniform_real_distribution<double> uniform(0, 1);
    for (int i = 0; i < 20000; ++i) {
        BackoffPolicy made = random_policy(engine);
        const std::int64_t k = std::uniform_int_distribution<std::int64_t>(1, 70)(engine);
        const Delay plain = core::backoff(made, k);
        const double random = i % 10 == 0 ? 0.0 : i % 10 == 1 ? std::nextafter(1.0, 0.0) : uniform(engine);

        ASSERT_EQ(core::backoff(made, k, std::nullopt, random), plain);
        made.jitter = Jitter::full;
        ASSERT_GE(core::backoff(made, k, std::nullopt, random), Delay(0));
        ASSERT_LE(core::backoff(made, k, std::nullopt, random), plain);
        made.jitter = Jitter::equal;
        ASSERT_GE(core::backoff(made, k, std::nullopt, random), plain / 2);
        ASSERT_LE(core::backoff(made, k, std::nullopt, random), plain);
        made.jitter = Jitter::fraction;
        made.fraction = uniform(engine);
        const Delay spread = core::backoff(made, k, std::nullopt, random);
        const double width = static_cast<double>(plain.count()) * made.fraction;
        ASSERT_GE(static_cast<double>(spread.count()), static_cast<double>(plain.count()) - width - 1);
        ASSERT_LE(static_cast<double>(spread.count()), static_cast<double>(plain.count()) + width + 1);
        ASSERT_LE(spread, made.cap);
    }
}

// Evenly spread: every tenth of the range gets about a tenth of the draws.
TEST(Backoff, JitterFillsItsRange) {
    std::mt19937_64 engine(22);
    std::uniform_real_distribution<double> uniform(0, 1);
    BackoffPolicy made = policy(BackoffStrategy::linear, std::chrono::seconds(100), std::chrono::hours(1));
    for (const auto& [jitter, low, high] :
         {std::tuple{Jitter::full, 0.0, 100e6}, {Jitter::equal, 50e6, 100e6}, {Jitter::fraction, 80e6, 120e6}}) {
        made.jitter = jitter;
        made.fraction = 0.2;
        int counts[10] = {};
        for (int i = 0; i < 10000; ++i) {
            const auto delay = static_cast<double>(core::backoff(made, 1, std::nullopt, uniform(engine)).count());
            ++counts[std::min(9, static_cast<int>((delay - low) / (high - low) * 10))];
        }
        for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
    }
}

TEST(Backoff, WhatIsAskedForReplacesTheFormula) {
    BackoffPolicy made = policy(BackoffStrategy::exponential, std::chrono::seconds(1), std::chrono::seconds(60));
    for (const Jitter jitter : {Jitter::none, Jitter::full, Jitter::equal, Jitter::fraction}) {
        made.jitter = jitter;
        EXPECT_EQ(core::backoff(made, 40, std::chrono::seconds(5), 0.3), std::chrono::seconds(5));
        EXPECT_EQ(core::backoff(made, 40, std::chrono::seconds(0), 0.3), Delay(0));
        EXPECT_EQ(core::backoff(made, 1, std::chrono::seconds(-5), 0.3), Delay(0));
        EXPECT_EQ(core::backoff(made, 1, std::chrono::hours(2), 0.3), std::chrono::seconds(60));
        EXPECT_EQ(core::backoff(made, 1, Delay::max(), 0.3), std::chrono::seconds(60));
        EXPECT_EQ(core::backoff(made, 1, Delay::min(), 0.3), Delay(0));
    }
}

TEST(Backoff, ProblemsOfAPolicyAreNamed) {
    const auto problem = [](auto change) {
        BackoffPolicy made;
        change(made);
        const char* const text = core::problem_of(made);
        return std::string(text == nullptr ? "" : text);
    };
    EXPECT_EQ(problem([](BackoffPolicy&) {}), "");
    EXPECT_EQ(problem([](BackoffPolicy& p) { p.base = Delay(-1); }), "base must not be negative");
    EXPECT_EQ(problem([](BackoffPolicy& p) { p.cap = Delay(-1); }), "cap must not be negative");
    EXPECT_EQ(problem([](BackoffPolicy& p) { p.cap = Delay::max(); }),
              "base and cap must not be longer than 100 years");
    for (const double multiplier : {0.99, -2.0, HUGE_VAL, std::nan("")})
        EXPECT_EQ(problem([&](BackoffPolicy& p) { p.multiplier = multiplier; }), "multiplier must be at least 1");
    for (const double fraction : {-0.01, 1.01, std::nan("")})
        EXPECT_EQ(problem([&](BackoffPolicy& p) { p.fraction = fraction; }), "jitter must be from 0 to 1");
    EXPECT_EQ(problem([](BackoffPolicy& p) { p.max_attempts = -1; }), "max_attempts must be 1 or more");
    EXPECT_TRUE(std::is_trivially_destructible_v<BackoffPolicy>);
}

TEST(Backoff, ConformanceCases) {
    const json cases = json::parse(file(root() / "test" / "conformance" / "dag" / "backoff.json")).at("cases");
    ASSERT_EQ(cases.size(), 40U);
    for (const json& each : cases) {
        SCOPED_TRACE(each.dump());
        const auto strategy = core::find_backoff_strategy(each.at("strategy").get<std::string>());
        ASSERT_TRUE(strategy);
        const BackoffPolicy made = policy(*strategy, milliseconds(each.value("base_ms", 0)),
                                          milliseconds(each.at("cap_ms").get<int>()), each.value("multiplier", 2.0));
        std::optional<Delay> asked;
        if (each.contains("retry_after_s")) asked = std::chrono::seconds(each.at("retry_after_s").get<int>());
        EXPECT_EQ(core::backoff(made, each.at("attempts").get<int>(), asked, 0.7),
                  milliseconds(each.at("expected_delay_ms").get<int>()));
    }
}

}  // namespace
}  // namespace pawl::test
