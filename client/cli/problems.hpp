// May throw. How the command line says what went wrong, and reads JSON that people type.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <pawl/errors.hpp>

namespace pawl::cli {

// Message and SQLSTATE, DETAIL and HINT, a line each: without the statement of this program that failed and the functions it was in.
std::string refusal(const Error& problem);

// Where the text is no JSON, the problem names what was given: an option, or a file.
nlohmann::json json_of(const std::string& given, const std::string& text);

}  // namespace pawl::cli
