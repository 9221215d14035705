// May throw Error. Reads and writes JSON of users within limits of depth and length. JSON that is nested too deep would
// overflow the stack, so it is checked before it is parsed, copied or written.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace pawl {

constexpr std::size_t deepest_json = 512;                    // nested arrays and objects
constexpr std::size_t longest_json = std::size_t(64) << 20;  // bytes

// Which limit a text or a value exceeds; empty: none. Does not recurse.
std::string excess_in(std::string_view text);
std::string excess_of(const nlohmann::json& value);

// Why a value cannot be a result: the limits, and what JSON or PostgreSQL has not, such as NaN and NUL. Empty: it can.
std::string problem_of(const nlohmann::json& value);

// Throws UnexpectedAnswer if the text is no JSON or exceeds a limit.
nlohmann::json parse_json(std::string_view text);

// The same, keeping the order of members.
nlohmann::ordered_json parse_ordered_json(std::string_view text);

// Valid JSON text, also if strings are not UTF-8. Throws Error if the value exceeds a limit.
std::string json_text(const nlohmann::json& value);

}  // namespace pawl
