#include "poll_interval.hpp"

#include <gtest/gtest.h>

using namespace std::chrono_literals;

TEST(PollInterval, DoublesUpToTheLongest) {
    pawl::PollInterval pace(10ms, 70ms);
    EXPECT_EQ(pace.advance(), 10ms);
    EXPECT_EQ(pace.advance(), 20ms);
    EXPECT_EQ(pace.advance(), 40ms);
    EXPECT_EQ(pace.advance(), 70ms);
    EXPECT_EQ(pace.advance(), 70ms);
}

TEST(PollInterval, BeginsAgainWhenThereWasWork) {
    pawl::PollInterval pace(5ms, 1s);
    for (int i = 0; i < 20; ++i) pace.advance();
    EXPECT_EQ(pace.current(), 1s);
    pace.reset();
    EXPECT_EQ(pace.advance(), 5ms);
}

TEST(PollInterval, LooksSoonForWhatFollows) {
    pawl::PollInterval pace(5ms, 1s);
    pace.reset_shorter();
    EXPECT_EQ(pace.advance(), 1ms);
    EXPECT_EQ(pace.advance(), 2ms);
    EXPECT_EQ(pace.advance(), 4ms);
    EXPECT_EQ(pace.advance(), 8ms);
    pace.reset();
    EXPECT_EQ(pace.advance(), 5ms);
}

TEST(PollInterval, NeverWaitsForNothing) {
    pawl::PollInterval pace(0ms, 0ms);
    EXPECT_EQ(pace.advance(), 1ms);
    EXPECT_EQ(pace.advance(), 1ms);
}

TEST(PollInterval, LongestBelowShortestIsShortest) {
    pawl::PollInterval pace(50ms, 10ms);
    EXPECT_EQ(pace.advance(), 50ms);
    EXPECT_EQ(pace.advance(), 50ms);
}
