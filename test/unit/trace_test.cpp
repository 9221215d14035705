// W3C trace context: what is one and what is not.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/trace.hpp"

namespace {

using pawl::core::is_traceparent;
using pawl::core::is_tracestate;

const std::string good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(Trace, Parent) {
    EXPECT_TRUE(is_traceparent(good));
    EXPECT_TRUE(is_traceparent("cc" + good.substr(2) + "-what-comes"));
    EXPECT_TRUE(is_traceparent("cc" + good.substr(2)));
    for (const std::string& bad : std::vector<std::string>{
             std::string(), std::string("00"), good + "-x", good + "0", "ff" + good.substr(2), "0G" + good.substr(2),
             "cc" + good.substr(2) + ".x", "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
             "00-00000000000000000000000000000000-b7ad6b7169203331-01",
             "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
             "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
             "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x", good.substr(0, 54), " " + good})
        EXPECT_FALSE(is_traceparent(bad)) << bad;
}

TEST(Trace, Headers) {
    const auto read = [](const std::string& headers) {
        const pawl::core::Trace trace = pawl::core::read_trace(headers);
        return std::string(trace.parent) + "|" + std::string(trace.state);
    };
    EXPECT_EQ(read(good), good + "|");
    EXPECT_EQ(read(good + " a=1"), good + "|a=1");
    EXPECT_EQ(read(good + " not a state"), good + "|");
    EXPECT_EQ(read("req-7 a=1"), "|");
    EXPECT_EQ(read(""), "|");
    EXPECT_EQ(pawl::core::trace_id(good), "0af7651916cd43dd8448eb211c80319c");
}

TEST(Trace, State) {
    for (const std::string& right : std::vector<std::string>{"a=1", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
                                                             "a=1 , b=2", "a=1,,b=2", "1a-_*/=x y", "0fw@ot=x"})
        EXPECT_TRUE(is_tracestate(right)) << right;
    for (const std::string& wrong :
         std::vector<std::string>{"", "a", "=1", "A=1", "a=", "a=b=c", "a=\x01", "@ot=x", "a@=x", "a@1t=x", "a@b@c=x"})
        EXPECT_FALSE(is_tracestate(wrong)) << wrong;
    EXPECT_TRUE(is_tracestate(std::string(256, 'k') + "=" + std::string(256, 'v')));
    EXPECT_FALSE(is_tracestate(std::string(257, 'k') + "=v"));
    EXPECT_FALSE(is_tracestate("k=" + std::string(257, 'v')));
    std::string many = "k=v";
    for (int i = 1; i < 32; ++i) many += ",k" + std::to_string(i) + "=v";
    EXPECT_TRUE(is_tracestate(many));
    EXPECT_FALSE(is_tracestate(many + ",x=v"));
}

}  // namespace
