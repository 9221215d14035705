// The list of SQLSTATEs.
#include <gtest/gtest.h>

#include <set>

#include "core/sqlstate.hpp"

namespace pawl::test {
namespace {

namespace sqlstate = core::sqlstate;

TEST(Sqlstate, GivesConstants) {
    EXPECT_EQ(sqlstate::no_such_transition, "PW001");
    EXPECT_EQ(sqlstate::not_an_initial_state, "PW002");
    EXPECT_EQ(sqlstate::guard_refused, "PW003");
    EXPECT_EQ(sqlstate::not_the_owner, "PW004");
    EXPECT_EQ(sqlstate::lease_lost, "PW005");
    EXPECT_EQ(sqlstate::log_is_immutable, "PW006");
    EXPECT_EQ(sqlstate::definition_error, "PW007");
    EXPECT_EQ(sqlstate::unknown_object, "PW008");
}

TEST(Sqlstate, EveryCodeIsOfTheClassAndThereOnce) {
    std::set<std::string_view> codes;
    for (const sqlstate::Entry& entry : sqlstate::all) {
        EXPECT_EQ(entry.code.size(), 5u);
        EXPECT_TRUE(entry.code.starts_with("PW"));
        EXPECT_FALSE(entry.meaning.empty());
        EXPECT_TRUE(codes.insert(entry.code).second);
        EXPECT_EQ(sqlstate::find(entry.code), &entry);
    }
    EXPECT_EQ(sqlstate::find("40001"), nullptr);
}

}  // namespace
}  // namespace pawl::test
