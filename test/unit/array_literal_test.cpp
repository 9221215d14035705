// Array literals that settings hold: the same elements as PostgreSQL reads, or an error.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/array_literal.hpp"

namespace {

using pawl::core::malformed_array;
using pawl::core::split_array_literal;

// The number of elements, and at most four of them.
struct Split {
    int n;
    std::vector<std::string> items;
};

Split split(std::string literal) {
    std::string_view items[4];
    Split result = {split_array_literal(literal.data(), items, 4), {}};
    for (int i = 0; i < std::min(result.n, 4); ++i) result.items.emplace_back(items[i]);
    return result;
}

TEST(ArrayLiteral, Elements) {
    const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
        {"{}", {}},
        {"  {  } ", {}},
        {"{pay}", {"pay"}},
        {"{pay,ship}", {"pay", "ship"}},
        {" { pay , ship now } ", {"pay", "ship now"}},
        {R"({"ship now","a,b","{}"})", {"ship now", "a,b", "{}"}},
        {R"({"a\"b","c\\d",e\,f,\ g})", {"a\"b", "c\\d", "e,f", " g"}},
        {R"({"",  "null"})", {"", "null"}},
        {"{nulls,x}", {"nulls", "x"}},
        {"{\xc3\xa4,b}", {"\xc3\xa4", "b"}},
    };
    for (const auto& [literal, items] : cases) {
        const Split result = split(literal);
        EXPECT_EQ(result.n, static_cast<int>(items.size())) << literal;
        EXPECT_EQ(result.items, items) << literal;
    }
}

TEST(ArrayLiteral, Malformed) {
    for (const char* literal :
         {"",      " ",        "a",        "{",      "}",        "{a",    "{a,",    "{a,}",
          "{,a}",  "{,}",      "{a,,b}",   "{null}", "{a,NULL}", "{{a}}", "{a}}",   "{a}x",
          "{\"a}", "{\"a\"b}", "{a\"b\"}", "{a\"b}", "{\\",      "{a\\",  "{\"a\\", "[0:1]={a,b}"})
        EXPECT_EQ(split(literal).n, malformed_array) << literal;
}

TEST(ArrayLiteral, MoreThanThereIsRoomFor) {
    const Split result = split("{a,b,c,d,e,f}");
    EXPECT_EQ(result.n, 6);
    EXPECT_EQ(result.items, (std::vector<std::string>{"a", "b", "c", "d"}));
}

}  // namespace
