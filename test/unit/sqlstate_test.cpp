// The list of SQLSTATEs.
#include <gtest/gtest.h>

#include <set>

#include "core/sqlstate.hpp"
#include "core/transient.hpp"

namespace pawl::test {
namespace {

namespace sqlstate = core::sqlstate;

TEST(Sqlstate, GivesConstants) {
    EXPECT_EQ(sqlstate::no_such_transition, "PW001");
    EXPECT_EQ(sqlstate::not_an_initial_state, "PW002");
    EXPECT_EQ(sqlstate::guard_rejected, "PW003");
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

TEST(Transient, TheLongestBeginningDecides) {
    using core::Repeat;
    for (const auto& [code, repeat] : {std::pair{"40001", Repeat::at_once},
                                       {"40P01", Repeat::at_once},
                                       {"40002", Repeat::never},
                                       {"40003", Repeat::later},
                                       {"53200", Repeat::later},
                                       {"57014", Repeat::later},
                                       {"57P03", Repeat::later},
                                       {"57P04", Repeat::never},
                                       {"55P03", Repeat::later},
                                       {"55000", Repeat::never},
                                       {"08006", Repeat::later},
                                       {"PW005", Repeat::never}})
        EXPECT_EQ(core::repeat_of(code), repeat) << code;
}

TEST(Transient, WhatIsNoSqlstateIsNotTransient) {
    for (const std::string_view text : {"", "4", "40", "400", "4000", "400011", "x40001"})
        EXPECT_FALSE(core::is_transient(text)) << text;
}

TEST(Transient, EveryBeginningIsThereOnceAndNoCodeOfOursIsTransient) {
    std::set<std::string_view> beginnings;
    for (const core::Transient& each : core::transients)
        EXPECT_TRUE(beginnings.insert(each.beginning).second) << each.beginning;
    for (const sqlstate::Entry& entry : sqlstate::all) EXPECT_FALSE(core::is_transient(entry.code)) << entry.code;
}

}  // namespace
}  // namespace pawl::test
