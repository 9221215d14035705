#include "pace.hpp"

#include <gtest/gtest.h>

using namespace std::chrono_literals;

TEST(Pace, DoublesUpToTheLongest) {
    pawl::Pace pace(10ms, 70ms);
    EXPECT_EQ(pace.idle(), 10ms);
    EXPECT_EQ(pace.idle(), 20ms);
    EXPECT_EQ(pace.idle(), 40ms);
    EXPECT_EQ(pace.idle(), 70ms);
    EXPECT_EQ(pace.idle(), 70ms);
}

TEST(Pace, BeginsAgainWhenThereWasWork) {
    pawl::Pace pace(5ms, 1s);
    for (int i = 0; i < 20; ++i) pace.idle();
    EXPECT_EQ(pace.next(), 1s);
    pace.found();
    EXPECT_EQ(pace.idle(), 5ms);
}

TEST(Pace, LooksSoonForWhatFollows) {
    pawl::Pace pace(5ms, 1s);
    pace.follows();
    EXPECT_EQ(pace.idle(), 1ms);
    EXPECT_EQ(pace.idle(), 2ms);
    EXPECT_EQ(pace.idle(), 4ms);
    EXPECT_EQ(pace.idle(), 8ms);
    pace.found();
    EXPECT_EQ(pace.idle(), 5ms);
}

TEST(Pace, NeverWaitsForNothing) {
    pawl::Pace pace(0ms, 0ms);
    EXPECT_EQ(pace.idle(), 1ms);
    EXPECT_EQ(pace.idle(), 1ms);
}

TEST(Pace, LongestBelowShortestIsShortest) {
    pawl::Pace pace(50ms, 10ms);
    EXPECT_EQ(pace.idle(), 50ms);
    EXPECT_EQ(pace.idle(), 50ms);
}
