// Pure C++; may throw (out of memory). Lists of several databases as one: their order, and the cursors that say where a
// page ended in each of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace pawl::api {

// Fields of the items by which a list is ordered, the first one first.
struct Order {
    std::vector<std::string> fields;
    bool descending = false;
};

// The keys of a row in a list; what the cursor of one database contains (pawl_api._cursor).
using Keys = std::vector<std::string>;

// Where a page ended in the list of one database.
struct PageEnd {
    bool ended = false;
    Keys keys = {};  // of the last row; none: nothing was read yet
};
using PageEnds = std::map<std::string, PageEnd>;  // by database

std::string cursor_of(const Keys& keys);
std::string cursor_of(const PageEnds& places);

// Nothing if it is no such cursor.
std::optional<Keys> keys_of(std::string_view cursor);
std::optional<PageEnds> places_of(std::string_view cursor);

// A page of one database: items in their order, and the cursor behind them, or behind rows that its filters have passed
// after them; nothing: the end.
struct Page {
    nlohmann::json items = nlohmann::json::array();
    std::optional<Keys> next = {};
};

// The first `most` items of the pages together, each with the name of its database. An item is left to a later page if
// a database can still have one that belongs before it. Moves `places` behind what is returned; those of databases
// without a page stay. Throws nlohmann::json::exception if an item lacks a field of the order.
nlohmann::json merge(std::map<std::string, Page> pages, const Order& order, std::size_t most, PageEnds& places);

// The next cursor: null if the lists of all these databases have ended.
nlohmann::json next_of(const std::vector<std::string>& databases, const PageEnds& places);

// Outcomes of an action (the schema Outcomes) in one or more databases as those of one: sums, the earliest time;
// groups and items with the names of their databases.
nlohmann::json sum_of(const std::map<std::string, nlohmann::json>& outcomes);

// The id as PostgreSQL prints it; nothing if it is none.
std::optional<std::string> uuid_of(std::string_view text);

}  // namespace pawl::api
