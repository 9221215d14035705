// JSON from outside and for outside: how deep it is and how long, found without recursion.
#include "json_text.hpp"

#include <gtest/gtest.h>

#include <pawl/errors.hpp>

namespace pawl {
namespace {

std::string nested(std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
}

TEST(JsonText, TakesWhatIsNotTooDeep) {
    EXPECT_EQ(excess_in(nested(deepest_json)), "");
    EXPECT_NE(excess_in(nested(deepest_json + 1)), "");
    EXPECT_EQ(json_text(parse_json(nested(deepest_json))), nested(deepest_json));
    EXPECT_THROW(parse_json(nested(1'000'000)), UnexpectedAnswer);
    EXPECT_THROW(parse_json("{"), UnexpectedAnswer);
}

TEST(JsonText, KnowsBracketsInStrings) {
    EXPECT_EQ(excess_in("\"" + std::string(10'000, '[') + "\\\"" + std::string(10'000, '{') + "\""), "");
    EXPECT_EQ(parse_json(R"({"a": "]]]\\"})").at("a"), "]]]\\");
}

TEST(JsonText, DoesNotWriteWhatIsTooDeepOrTooLong) {
    nlohmann::json value = 1;
    for (int i = 0; i < 100'000; ++i) {
        auto outer = nlohmann::json::array();
        outer.push_back(std::move(value));
        value = std::move(outer);
    }
    EXPECT_NE(excess_of(value), "");
    EXPECT_THROW(json_text(value), Error);
    EXPECT_THROW(json_text(std::string(longest_json, 'x')), Error);
    EXPECT_EQ(json_text("\xff"), "\"\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace pawl
