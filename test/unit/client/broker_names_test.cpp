#include "broker_names.hpp"

#include <set>

#include <gtest/gtest.h>

namespace {

using namespace pawl;

TEST(BrokerNames, RabbitNamesAreReadable) {
    EXPECT_EQ(rabbitmq_name({"pawl_dag.steps", "billing"}), "pawl.pawl_dag.steps.billing");
    EXPECT_EQ(rabbitmq_name({"public.jobs", std::nullopt}), "pawl.public.jobs");
    EXPECT_LE(rabbitmq_name({"public.jobs", std::string(300, 'x')}).size(), 255u);
    EXPECT_NE(rabbitmq_name({"public.jobs", std::string(300, 'x')}),
              rabbitmq_name({"public.jobs", std::string(301, 'x')}));
}

TEST(BrokerNames, PgmqNamesAreShortPlainAndDifferent) {
    std::set<std::string> names;
    int channels = 0;
    for (const std::string relation :
         {"a.b", "a_b", "a.B", "\"A b\".c", "pawl_dag.steps", "a very.long name that does not fit at all"})
        for (const auto& queue :
             {std::optional<std::string>(), std::optional<std::string>(""), std::optional<std::string>("x.y"),
              std::optional<std::string>("x_y"), std::optional<std::string>("ü")}) {
            const std::string name = pgmq_name({relation, queue});
            EXPECT_LE(name.size(), 47u);
            EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos) << name;
            names.insert(name);
            ++channels;
        }
    EXPECT_EQ(names.size(), static_cast<std::size_t>(channels));
    EXPECT_EQ(pgmq_name({"pawl_dag.steps", "default"}),
              "pawl_pawl_dag_steps_defaul_d86a9830f408bb29");  // the name does not depend on its creator
}

TEST(BrokerNames, AMessageComesThrough) {
    const Channel channel{"public.jobs", "a \"b\""};
    for (const RowKey& key : {RowKey{"1"}, RowKey{"x, \"y\"", "2"}, RowKey{""}})
        EXPECT_EQ(key_in(body_of({channel, key}), channel), key);
}

TEST(BrokerNames, WhatIsNoMessageOfOursIsNone) {
    const Channel channel{"public.jobs"};
    for (const char* body : {"", "{", "null", "[]", "{}", "\"x\"", R"({"relation": "public.jobs"})",
                             R"({"relation": "other", "key": ["1"]})", R"({"relation": 1, "key": ["1"]})",
                             R"({"relation": "public.jobs", "key": "1"})", R"({"relation": "public.jobs", "key": []})",
                             R"({"relation": "public.jobs", "key": [1]})",
                             R"({"relation": "public.jobs", "key": ["a\u0000b"]})", "\xff\xfe"})
        EXPECT_EQ(key_in(body, channel), std::nullopt) << body;
}

}  // namespace
