// May throw. Error messages of the command line, and JSON that people type.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <pawl/errors.hpp>

namespace pawl::cli {

// Message and SQLSTATE, DETAIL and HINT, one line each, without the failed statement and its CONTEXT.
std::string message_of(const Error& problem);

// Parses JSON. `given` names its source in the error: an option, or a file.
nlohmann::json json_of(const std::string& given, const std::string& text);

}  // namespace pawl::cli
