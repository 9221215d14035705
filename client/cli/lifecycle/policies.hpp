// May throw. What a file can say of a table: each key of its front matter, and the function that sets it. The table
// here drives reading, comparing and SQL.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace pawl::cli {

using Json = nlohmann::ordered_json;

enum class Shape {
    text,       // one of `values`, or any
    name,       // of a column or table, as it is
    names,      // a list of columns
    events,     // a list of events
    flag,       // true or false
    count,      // a number
    interval,   // of time
    object,     // JSON
    results,    // states, each with true or false
    order,      // as in ORDER BY
    partition,  // as pawl.enable_log takes it
    relation    // a table
};

struct Policy {
    std::string_view section;  // empty: a key of the table's entry itself
    std::string_view key;      // of the front matter
    Shape shape;
    std::string_view call;      // the function that sets it
    std::string_view argument;  // of that function
    Json initial;               // the value where the file does not name one; null: none, or as it is
    std::vector<std::string> values{};

    std::string id() const { return (section.empty() ? "" : std::string(section) + ".") + std::string(key); }
};

// A function that sets policies. `whole`: it takes all of its arguments each time.
struct Call {
    std::string_view name;
    bool whole;
};

// In the order of the documentation, and in that in which the functions can be called.
const std::vector<Policy>& policies();
const std::vector<Call>& calls();

const Policy* find_policy(std::string_view section, std::string_view key);
bool is_section(std::string_view name);

// The values of a table's policies, by Policy::id. A section that can be there or not has its own name as a flag.
using Settings = std::map<std::string, Json>;

// Those of a table that only pawl.enforce was called for.
Settings initial_settings();

// Whether two values mean the same: the order of members says nothing.
bool same_value(const Json& one, const Json& other);

// Whether the value is the one that says nothing.
bool is_none(const Policy& policy, const Json& value);

// The value as an argument; one that is null takes away what was there.
std::string sql_value(const Policy& policy, const Json& value);

// The value for people.
std::string shown_value(const Json& value);

}  // namespace pawl::cli
