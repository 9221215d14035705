#include "merge.hpp"

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

namespace {

using namespace pawl::api;
using Json = nlohmann::json;

const Order newest{{"id"}, true};
const Order by_name{{"space", "name"}, false};

Json rows(const std::vector<std::string>& ids) {
    auto list = Json::array();
    for (const auto& id : ids) list.push_back({{"id", id}});
    return list;
}

std::string told(const Json& items) {
    std::string text;
    for (const auto& item : items)
        text += (text.empty() ? "" : " ") + item["database"].get<std::string>() + item["id"].get<std::string>();
    return text;
}

TEST(Merge, CursorsAreReadAsTheyWereWritten) {
    const Keys keys{"2026-01-01T00:00:00+00:00", "ü \"quoted\""};
    EXPECT_EQ(keys_of(cursor_of(keys)), keys);
    const PageEnds places{{"a", {.ended = true}}, {"b", {.keys = keys}}, {"c", {}}};
    const auto read = places_of(cursor_of(places));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->size(), 2u);  // c begins at the beginning
    EXPECT_TRUE(read->at("a").ended);
    EXPECT_EQ(read->at("b").keys, keys);
}

// As pawl_api._cursor(ARRAY['a', 'b']) has it.
TEST(Merge, CursorsOfTheDatabaseAreRead) {
    EXPECT_EQ(keys_of("WyJhIiwgImIiXQ"), (Keys{"a", "b"}));
}

TEST(Merge, InvalidCursorsAreNone) {
    for (const char* text : {"", "x", "!!!!", "WyJhIl0", "bnVsbA", "eyJhIjoxfQ", "eyJhIjpbMV19", "eyJhIjpbXX0"})
        EXPECT_FALSE(places_of(text)) << text;
    for (const char* text : {"", "e30", "W10", "WzFd", "{}"}) EXPECT_FALSE(keys_of(text)) << text;
}

TEST(Merge, ItemsAreInTheOrderOfTheList) {
    PageEnds places;
    EXPECT_EQ(told(merge({{"a", {rows({"9", "5"}), {}}}, {"b", {rows({"8", "7"}), {}}}}, newest, 10, places)),
              "a9 b8 b7 a5");
    EXPECT_TRUE(next_of({"a", "b"}, places).is_null());
}

TEST(Merge, APageEndsWhereItIsFull) {
    PageEnds places;
    EXPECT_EQ(told(merge({{"a", {rows({"9", "5"}), Keys{"5"}}}, {"b", {rows({"8", "7"}), {}}}}, newest, 2, places)),
              "a9 b8");
    EXPECT_EQ(places.at("a").keys, Keys{"8"});  // nothing between 9 and 8 is missing
    EXPECT_EQ(places.at("b").keys, Keys{"8"});
    EXPECT_FALSE(places.at("b").ended);
    EXPECT_FALSE(next_of({"a", "b"}, places).is_null());
}

// A filter has looked as far as 6 in b and found nothing: what is behind it there is not known yet.
TEST(Merge, AnItemWaitsForOnesThatBelongBeforeIt) {
    PageEnds places;
    EXPECT_EQ(told(merge({{"a", {rows({"9", "5"}), {}}}, {"b", {rows({}), Keys{"6"}}}}, newest, 10, places)), "a9");
    EXPECT_EQ(places.at("a").keys, Keys{"9"});
    EXPECT_EQ(places.at("b").keys, Keys{"6"});
    EXPECT_EQ(told(merge({{"a", {rows({"5"}), {}}}, {"b", {rows({"4"}), {}}}}, newest, 10, places)), "a5 b4");
}

TEST(Merge, EqualKeysAreNotSkipped) {
    const auto row = [](const char* id) { return Json{{"space", "s"}, {"name", "n"}, {"id", id}}; };
    PageEnds places;
    EXPECT_EQ(
        told(merge({{"a", {Json::array({row("1")}), {}}}, {"b", {Json::array({row("2")}), {}}}}, by_name, 1, places)),
        "a1");
    EXPECT_TRUE(places.at("a").ended);
    EXPECT_TRUE(places["b"].keys.empty());
    EXPECT_FALSE(places.at("b").ended);
}

TEST(Merge, ADatabaseWithoutAPageKeepsItsPlace) {
    PageEnds places{{"a", {.keys = {"7"}}}};
    EXPECT_EQ(told(merge({{"b", {rows({"3"}), {}}}}, newest, 10, places)), "b3");
    EXPECT_EQ(places.at("a").keys, Keys{"7"});
}

// All rows of a list that is read page by page, where a database looks at `step` rows for a page and returns those that
// match.
std::vector<std::string> read_in_pages(const std::map<std::string, std::vector<std::string>>& all, std::size_t limit,
                                       std::size_t step, const std::function<bool(const std::string&)>& matches) {
    std::vector<std::string> found;
    PageEnds places;
    for (int n = 0; n < 10'000; ++n) {
        std::map<std::string, Page> pages;
        for (const auto& [database, ids] : all) {
            if (places[database].ended) continue;
            const Keys keys = places[database].keys;
            auto at =
                std::find_if(ids.begin(), ids.end(), [&](const auto& id) { return keys.empty() || id < keys[0]; });
            std::vector<std::string> page;
            std::optional<Keys> next;
            for (std::size_t looked = 0; at != ids.end(); ++at) {
                if (matches(*at)) page.push_back(*at);
                if (++looked == step || page.size() == limit) {
                    next = Keys{*at};
                    break;
                }
            }
            pages[database] = {rows(page), next};
        }
        for (const auto& item : merge(pages, newest, limit, places))
            found.push_back(item["database"].get<std::string>() + item["id"].get<std::string>());
        const auto next = next_of({"a", "b", "c"}, places);
        if (next.is_null()) return found;
        places = *places_of(next.get<std::string>());
    }
    return {"it has no end"};
}

TEST(Merge, PagesHaveEveryRowOnceAndInOrder) {
    std::map<std::string, std::vector<std::string>> all;
    std::vector<std::string> rows, thirds;
    const auto is_third = [](const std::string& id) { return std::stoi(id) % 3 == 0; };
    for (int i = 399; i >= 100; --i) {
        const std::string database(1, static_cast<char>('a' + (i / 2 + i % 5) % 3)), id = std::to_string(i);
        all[database].push_back(id);
        rows.push_back(database + id);
        if (is_third(id)) thirds.push_back(database + id);
    }
    for (const std::size_t limit : {1u, 2u, 7u, 50u, 500u}) {
        EXPECT_EQ(read_in_pages(all, limit, SIZE_MAX, [](const auto&) { return true; }), rows) << limit;
        for (const std::size_t step : {1u, 5u, 40u})
            EXPECT_EQ(read_in_pages(all, limit, step, is_third), thirds) << limit;
    }
}

TEST(Merge, OutcomesAreAddedUp) {
    const auto outcome = [](int changed, const char* id) {
        return Json{{"action", "retry"},
                    {"dry_run", false},
                    {"at", "2026-01-01T00:00:0" + std::to_string(changed)},
                    {"changed", changed},
                    {"unchanged", 0},
                    {"rejected", 1},
                    {"groups", Json::array({{{"outcome", "changed"}, {"count", changed}}})},
                    {"items", Json::array({{{"id", id}}})},
                    {"next", nullptr}};
    };
    const Json sum = sum_of({{"a", outcome(2, "1")}, {"b", outcome(3, "2")}});
    EXPECT_EQ(sum["changed"], 5);
    EXPECT_EQ(sum["rejected"], 2);
    EXPECT_EQ(sum["at"], "2026-01-01T00:00:02");
    EXPECT_EQ(told(sum["items"]), "a1 b2");
    EXPECT_EQ(sum["groups"][1]["database"], "b");
    EXPECT_EQ(sum["databases"][0], (Json{{"database", "a"}, {"changed", 2}, {"unchanged", 0}, {"rejected", 1}}));
}

TEST(Merge, IdsAreAsTheDatabasePrintsThem) {
    const char* id = "01890000-0000-7000-8000-00000000000a";
    for (const char* text : {id, "01890000-0000-7000-8000-00000000000A", "{01890000-0000-7000-8000-00000000000a}",
                             "0189000000007000800000000000000a"})
        EXPECT_EQ(uuid_of(text), id) << text;
    for (const char* text : {"", "x", "01890000-0000-7000-8000-00000000000", "01890000-0000-7000-8000-00000000000aa"})
        EXPECT_FALSE(uuid_of(text)) << text;
}

}  // namespace
