// May throw. Prints results: a table for people, JSON for programs.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "rows.hpp"

namespace pawl::cli {

struct Output {
    bool json = false;
    bool colours = false;
    bool terminal = false;  // standard output is one
};

// An array of objects; columns that hold JSON, numbers or booleans come as such.
nlohmann::ordered_json as_json(const sql::Rows& rows);

void print(const Output& output, const sql::Rows& rows);
void print(const Output& output, const nlohmann::ordered_json& value, const std::string& text);

// The text with control characters as \xhh, but for line ends, tabs and colours.
std::string coloured_only(const std::string& text);

// A flowchart in Mermaid: {"name", "state", "parents": [...]} a step.
std::string mermaid_of(const nlohmann::json& steps);

// [#####.....] 12/24
std::string progress_bar(int done, int total, int width);

}  // namespace pawl::cli
