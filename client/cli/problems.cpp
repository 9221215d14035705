// May throw.
#include "problems.hpp"

#include <regex>
#include <sstream>

#include "json_text.hpp"
#include "terminal_text.hpp"

namespace pawl::cli {
namespace {

// libpq prints "ERROR:  message", the place in the statement, and sections that begin with a word of these.
std::string kept_lines(const std::string& message) {
    std::istringstream lines(message);
    std::string text, line;
    for (bool keep = true; std::getline(lines, line);) {
        if (std::regex_search(line, std::regex("^LINE [0-9]+: "))) {
            std::getline(lines, line);  // the caret below it
            continue;
        }
        if (line.starts_with("DETAIL:  ") || line.starts_with("HINT:  ")) keep = true;
        if (line.starts_with("CONTEXT:  ") || line.starts_with("QUERY:  ")) keep = false;
        if (keep && !line.empty()) text += (text.empty() ? "" : "\n") + line;
    }
    return text;
}

// A database without the pack that a command is about says that a table or a function of it does not exist.
std::string hint_of_missing_extension(const std::string& sqlstate, const std::string& text) {
    std::smatch found;
    if ((sqlstate != "3F000" && sqlstate != "42P01" && sqlstate != "42883") ||
        text.find("\nHINT:  ") != std::string::npos ||
        !std::regex_search(text, found, std::regex("\\b(pawl(_dag|_bulk|_saga|_api)?)(\\.|\" does not exist)")))
        return "";
    return "\nHINT:  create extension " + found[1].str() + (found[2].matched ? " cascade" : "") +
           "; or --database names another database";
}

}  // namespace

std::string message_of(const Error& problem) {
    std::string text = without_controls(kept_lines(problem.what()));
    if (problem.sqlstate().empty()) return text;
    text = std::regex_replace(text, std::regex("^[^ :]{1,20}:  "), "");
    text += hint_of_missing_extension(problem.sqlstate(), text);
    text.insert(std::min(text.find('\n'), text.size()), " [" + problem.sqlstate() + "]");
    return text;
}

nlohmann::json json_of(const std::string& given, const std::string& text) {
    try {
        if (const std::string excess = excess_in(text); !excess.empty())
            throw std::invalid_argument(given + ": " + excess);
        return nlohmann::json::parse(text);
    } catch (const nlohmann::json::parse_error& problem) {
        throw std::invalid_argument(given + " is no JSON: " +
                                    std::regex_replace(problem.what(), std::regex("^\\[[^\\]]*\\] parse error "), ""));
    }
}

}  // namespace pawl::cli
