// May throw. Error messages of the command line, and JSON that people type.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <pawl/errors.hpp>

namespace pawl::cli {

// Message and SQLSTATE, DETAIL and HINT, one line each, without the failed statement and its CONTEXT.
std::string message_of(const Error& problem);

// The text with invalid bytes and control characters other than line ends and tabs as \xhh, and without the power to
// move a terminal's cursor, rename its window or hide what follows. C1 controls are two bytes in UTF-8.
std::string without_controls(std::string_view text);

// The same in one line, for a comment or a line of a terminal: line ends and tabs as \xhh too, and as \uhhhh the
// separators of lines and paragraphs, U+2028 and U+2029.
std::string one_line(std::string_view text);

// Parses JSON. `given` names its source in the error: an option, or a file.
nlohmann::json json_of(const std::string& given, const std::string& text);

}  // namespace pawl::cli
