// Pure C++; throws. The error that every part of the core reports.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace pawl::core {

// Where in a diagram something stands; 0 means "no place".
struct Place {
    int line = 0;
    int column = 0;
};

// A definition error (SQLSTATE PW007): what is wrong, the facts, and what to do about it.
class Error : public std::runtime_error {
public:
    Error(std::string message, Place where, std::string detail = {}, std::string hint = {},
          std::string code = "definition_error")
        : std::runtime_error(std::move(message)),
          where(where),
          detail(std::move(detail)),
          hint(std::move(hint)),
          code(std::move(code)) {}

    Place where;
    std::string detail;
    std::string hint;
    std::string code;  // the linter's name for it, e.g. "syntax_error", "no_initial_state"
};

// The name as a message shows it.
inline std::string quote(std::string_view name) {
    return "\"" + std::string(name) + "\"";
}

}  // namespace pawl::core
