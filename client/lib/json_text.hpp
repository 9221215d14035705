// May throw Error. JSON that comes from outside, or goes there: no deeper and no longer than this program can hold. What is nested deeper
// than the stack is high would end the process, so it is looked at before it is parsed, copied or written.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace pawl {

constexpr std::size_t deepest_json = 512;                       // arrays and objects in each other
constexpr std::size_t longest_json = std::size_t(64) << 20;     // bytes

// What is too much about a text or a value; empty: nothing. Does not recurse.
std::string excess_in(std::string_view text);
std::string excess_of(const nlohmann::json& value);

// Throws UnexpectedAnswer where it is no JSON or too much of it.
nlohmann::json parse_json(std::string_view text);

// The same with the order of members kept.
nlohmann::ordered_json parse_ordered_json(std::string_view text);

// As text that is JSON whatever the bytes of its strings. Throws Error where it is too much.
std::string json_text(const nlohmann::json& value);

}  // namespace pawl
