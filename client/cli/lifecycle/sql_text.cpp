// Pure C++; throws only bad_alloc. See sql_text.hpp.
#include "lifecycle/sql_text.hpp"

#include <algorithm>
#include <regex>

namespace pawl::cli {
namespace {

bool is_letter(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || byte >= 0x80;
}

bool goes_on(char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '$';
}

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

void skip_blanks(std::string_view& text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t' || text.front() == '\n'))
        text.remove_prefix(1);
}

// Takes a name off the front: a quoted one as it is, a plain one in lower case. Nothing if there is none.
std::optional<std::string> take_name(std::string_view& text) {
    skip_blanks(text);
    std::string name;
    if (!text.empty() && text.front() == '"') {
        for (std::size_t i = 1; i < text.size(); ++i) {
            if (text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"') {
                ++i;
            } else if (text[i] == '"') {
                text.remove_prefix(i + 1);
                return name.empty() ? std::nullopt : std::optional(name);
            }
            name += text[i];
        }
        return std::nullopt;
    }
    while (!text.empty() && (name.empty() ? is_letter(text.front()) : goes_on(text.front()))) {
        name += lower(text.front());
        text.remove_prefix(1);
    }
    return name.empty() ? std::nullopt : std::optional(name);
}

bool take(std::string_view& text, char c) {
    skip_blanks(text);
    if (text.empty() || text.front() != c) return false;
    text.remove_prefix(1);
    return true;
}

bool ends(std::string_view& text) {
    skip_blanks(text);
    return text.empty();
}

}  // namespace

std::string literal(std::string_view text) {
    const bool escaped = text.find('\\') != std::string_view::npos;
    std::string result = escaped ? "E'" : "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') result += c;
        result += c;
    }
    return result + "'";
}

std::string dollar_quoted(std::string_view text, const std::string& word) {
    std::string tag = "$" + word + "$";
    for (int n = 1; text.find(tag.substr(0, tag.size() - 1)) != std::string_view::npos; ++n)
        tag = "$" + word + std::to_string(n) + "$";
    return tag + std::string(text) + tag;
}

std::string identifier(std::string_view name) {
    const bool plain = !name.empty() && (name.front() == '_' || (name.front() >= 'a' && name.front() <= 'z')) &&
                       std::all_of(name.begin(), name.end(),
                                   [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
    if (plain) return std::string(name);
    std::string result = "\"";
    for (const char c : name) {
        if (c == '"') result += c;
        result += c;
    }
    return result + '"';
}

std::optional<std::string> relation_name(std::string_view text) {
    std::string result;
    for (int part = 0; part < 2; ++part) {
        const auto name = take_name(text);
        if (!name) return std::nullopt;
        result += (part > 0 ? "." : "") + identifier(*name);
        if (ends(text)) return result;
        if (!take(text, '.')) return std::nullopt;
    }
    return std::nullopt;
}

std::optional<std::string> claim_order(std::string_view text) {
    std::string result;
    do {
        const auto name = take_name(text);
        if (!name) return std::nullopt;
        result += (result.empty() ? "" : ", ") + identifier(*name);
        skip_blanks(text);
        if (text.empty() || text.front() == ',') continue;
        const auto direction = take_name(text);
        if (direction != "asc" && direction != "desc") return std::nullopt;
        if (direction == "desc") result += " desc";
    } while (take(text, ','));
    return ends(text) ? std::optional(result) : std::nullopt;
}

std::optional<std::string> log_partition(std::string_view text) {
    const auto strategy = take_name(text);
    if ((strategy != "range" && strategy != "list" && strategy != "hash") || !take(text, '(')) return std::nullopt;
    std::string result = *strategy + " (";
    do {
        const auto name = take_name(text);
        if (!name) return std::nullopt;
        result += (result.ends_with('(') ? "" : ", ") + identifier(*name);
    } while (take(text, ','));
    if (!take(text, ')')) return std::nullopt;
    result += ')';
    if (*strategy != "hash") return ends(text) ? std::optional(result) : std::nullopt;
    if (take_name(text) != "partitions") return std::nullopt;
    skip_blanks(text);
    const std::string count(text);
    if (!std::regex_match(count, std::regex("[0-9]{1,4}\\s*"))) return std::nullopt;
    return result + " partitions " + std::to_string(std::stoi(count));
}

}  // namespace pawl::cli
