#include "libpq.hpp"

#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace {

using pawl::with_login_of;
using Values = std::map<std::string, std::string>;

// What libpq reads in a connection string.
Values values_of(const std::string& target) {
    Values values;
    const std::unique_ptr<PQconninfoOption, void (*)(PQconninfoOption*)> options(
        PQconninfoParse(target.c_str(), nullptr), PQconninfoFree);
    for (const PQconninfoOption* one = options.get(); one && one->keyword; ++one)
        if (one->val) values[one->keyword] = one->val;
    return values;
}

TEST(Connection, AnotherDatabaseIsReachedWithTheSameLogin) {
    EXPECT_EQ(values_of(with_login_of("host=a user=api password=x", "host=b port=5433 dbname=shop")),
              (Values{{"host", "b"}, {"port", "5433"}, {"dbname", "shop"}, {"user", "api"}, {"password", "x"}}));
}

TEST(Connection, TheLoginCountsMoreThanTheTarget) {
    EXPECT_EQ(values_of(with_login_of("user=api sslcert=api.pem", "service=b user=other")),
              (Values{{"service", "b"}, {"user", "api"}, {"sslcert", "api.pem"}}));
}

TEST(Connection, ALoginWithoutAUserLeavesThatOfTheTarget) {
    EXPECT_EQ(values_of(with_login_of("host=a", "host=b user=other")), (Values{{"host", "b"}, {"user", "other"}}));
}

TEST(Connection, ValuesKeepTheirSpecialCharacters) {
    EXPECT_EQ(values_of(with_login_of("postgresql://api:it%27s%20%5C@a/x", "postgresql://b:1/my%20shop"))["password"],
              "it's \\");
    EXPECT_EQ(values_of(with_login_of("user=api", "postgresql://b:1/my%20shop"))["dbname"], "my shop");
}

}  // namespace
