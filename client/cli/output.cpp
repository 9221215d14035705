// May throw.
#include "output.hpp"

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <vector>

#include "json_text.hpp"
#include "terminal_text.hpp"

namespace pawl::cli {
namespace {

nlohmann::ordered_json value_of(const sql::Field& field) {
    enum : pqxx::oid {
        boolean = 16,
        bigint = 20,
        smallint = 21,
        integer = 23,
        json = 114,
        real = 700,
        double_precision = 701,
        numeric = 1700,
        jsonb = 3802
    };
    if (field.is_null()) return nullptr;
    switch (field.type()) {
        case boolean:
            return field.as<bool>();
        case bigint:
        case smallint:
        case integer:
            return field.as<std::int64_t>();
        case json:
        case jsonb:
            // what is too deep for a program is told as text
            return excess_in(field.c_str()).empty() ? parse_ordered_json(field.c_str())
                                                    : nlohmann::ordered_json(field.c_str());
        case real:
        case double_precision:
        case numeric:
            return field.as<std::string>().find_first_not_of("+-.0123456789eE") == std::string::npos
                       ? parse_ordered_json(field.c_str())
                       : nlohmann::ordered_json(field.c_str());
        default:
            return field.as<std::string>();
    }
}

// Columns on a terminal, not bytes.
std::size_t width_of(const std::string& text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; }));
}

void print_line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        line += cells[i];
        if (i + 1 < cells.size()) line.append(widths[i] - width_of(cells[i]) + 2, ' ');
    }
    std::cout << line << '\n';
}

}  // namespace

nlohmann::ordered_json as_json(const sql::Rows& rows) {
    auto all = nlohmann::ordered_json::array();
    for (const auto& row : rows) {
        auto one = nlohmann::ordered_json::object();
        for (int i = 0; i < row.size(); ++i) one[row[i].name()] = value_of(row[i]);
        all.push_back(std::move(one));
    }
    return all;
}

void print(const Output& output, const sql::Rows& rows) {
    if (output.json) {
        std::cout << as_json(rows).dump(2) << '\n';
        return;
    }
    std::vector<std::vector<std::string>> lines(1);
    for (int i = 0; i < static_cast<int>(rows.columns()); ++i) lines[0].emplace_back(rows.column_name(i));
    for (const auto& row : rows) {
        lines.emplace_back();
        for (int i = 0; i < row.size(); ++i) lines.back().push_back(without_controls(row[i].text_or_empty()));
    }
    std::vector<std::size_t> widths(lines[0].size());
    for (const auto& line : lines)
        for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
    for (const auto& line : lines) print_line(line, widths);
}

void print(const Output& output, const nlohmann::ordered_json& value, const std::string& text) {
    // a file gets a diagram as it is
    std::cout << (output.json ? value.dump(2) : output.terminal ? coloured_only(text) : text) << '\n';
}

std::string coloured_only(const std::string& text) {
    static const std::set<std::string> codes{"0", "1", "2", "31", "32", "33", "34", "90"};  // of coloured() and Paint
    std::string clean;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.compare(at, 2, "\033[") == 0 ? text.find('m', at) : std::string::npos;
        const bool is_colour = end != std::string::npos && codes.contains(text.substr(at + 2, end - at - 2));
        const std::size_t next = is_colour ? end + 1 : std::min(text.find('\033', at + 1), text.size());
        clean += is_colour ? text.substr(at, next - at) : without_controls(text.substr(at, next - at));
        at = next;
    }
    return clean;
}

std::string mermaid_of(const nlohmann::json& steps) {
    std::map<std::string, std::string> ids;  // names may be no identifiers
    for (const auto& step : steps)
        ids.emplace(step.at("name").get<std::string>(), "s" + std::to_string(ids.size() + 1));
    std::string text = "flowchart TD\n", links;
    for (const auto& step : steps) {
        const std::string id = ids.at(step.at("name").get<std::string>());
        std::string label = step.at("name").get<std::string>();
        for (std::size_t at = 0; (at = label.find('"', at)) != std::string::npos; at += 6)
            label.replace(at, 1, "#quot;");
        text += "    " + id + "[\"" + label + "<br/>" + step.at("state").get<std::string>() +
                "\"]:::" + step.at("state").get<std::string>() + "\n";
        for (const auto& parent : step.at("parents"))
            links += "    " + ids.at(parent.get<std::string>()) + " --> " + id + "\n";
    }
    return text + links +
           "    classDef complete fill:#dafbe1,stroke:#1a7f37\n    classDef resolved_manually "
           "fill:#dafbe1,stroke:#1a7f37\n"
           "    classDef in_progress fill:#ddf4ff,stroke:#0969da\n    classDef waiting_for_retry "
           "fill:#fff8c5,stroke:#9a6700\n"
           "    classDef error fill:#ffebe9,stroke:#cf222e\n    classDef cancelled fill:#eaeef2,stroke:#6e7781";
}

std::string progress_bar(int done, int total, int width) {
    const int filled = total > 0 ? width * std::clamp(done, 0, total) / total : width;
    return "[" + std::string(static_cast<std::size_t>(filled), '#') +
           std::string(static_cast<std::size_t>(width - filled), '.') + "] " + std::to_string(done) + "/" +
           std::to_string(total);
}

}  // namespace pawl::cli
