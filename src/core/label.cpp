// Pure C++; throws only bad_alloc. The label of a transition: event(params) [guards] after <interval> / effects.
#include <array>
#include <optional>

#include "diagram.hpp"
#include "scanner.hpp"

namespace pawl::core {
namespace {

// Nesting of brackets at each character; nothing when they do not match.
std::optional<std::vector<int>> bracket_depths(std::string_view text) {
    std::vector<int> depths;
    depths.reserve(text.size());
    std::string open;
    for (const char c : text) {
        if (c == ')' || c == ']') {
            if (open.empty() || open.back() != (c == ')' ? '(' : '[')) return std::nullopt;
            open.pop_back();
        }
        depths.push_back(static_cast<int>(open.size()));
        if (c == '(' || c == '[') open += c;
    }
    if (!open.empty()) return std::nullopt;
    return depths;
}

// The slash before the effects: outside brackets, not in a tag such as <br/>, not doubled as in http://.
std::size_t find_effects(std::string_view text, const std::vector<int>& depths) {
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '/' || depths[at] > 0) continue;
        const char before = at > 0 ? text[at - 1] : ' ';
        const char after = at + 1 < text.size() ? text[at + 1] : ' ';
        if (after == '>' || before == '<') continue;
        if (after == '/') {
            ++at;
            continue;
        }
        return at;
    }
    return std::string_view::npos;
}

// Splits at commas outside brackets; nothing when a part is empty.
std::optional<std::vector<std::string>> split(std::string_view text) {
    std::vector<std::string> parts;
    int depth = 0;
    std::size_t start = 0;
    for (std::size_t at = 0; at <= text.size(); ++at) {
        if (at < text.size()) {
            if (text[at] == '(' || text[at] == '[') ++depth;
            if (text[at] == ')' || text[at] == ']') --depth;
            if (text[at] != ',' || depth > 0) continue;
        }
        const std::string_view part = trim(text.substr(start, at - start));
        if (part.empty()) return std::nullopt;
        parts.emplace_back(part);
        start = at + 1;
    }
    return parts;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_unit(std::string_view word) {
    static constexpr auto units = std::to_array<std::string_view>(
        {"us",     "usec",    "microsecond", "microseconds", "ms",      "msec",  "millisecond", "milliseconds",
         "s",      "sec",     "secs",        "second",       "seconds", "m",     "min",         "mins",
         "minute", "minutes", "h",           "hr",           "hrs",     "hour",  "hours",       "d",
         "day",    "days",    "w",           "week",         "weeks",   "mon",   "mons",        "month",
         "months", "y",       "yr",          "yrs",          "year",    "years", "decade",      "decades"});
    for (const std::string_view unit : units) {
        if (same_word(word, unit)) return true;
    }
    return false;
}

// An ISO 8601 duration such as P1DT12H.
bool is_iso_interval(std::string_view text) {
    if (text.size() < 3 || text[0] != 'P') return false;
    bool digits = false;
    for (const char c : text.substr(1)) {
        digits = digits || is_digit(c);
        if (!is_digit(c) && std::string_view("YMWDTHS.").find(c) == std::string_view::npos) return false;
    }
    return digits && !is_digit(text.back());
}

// "30 minutes", "1h 30m", "1 day 02:30:00", "00:05:00", "P1D". PostgreSQL decides whether it is valid.
bool is_interval(std::string_view text) {
    if (is_iso_interval(text)) return true;
    bool any = false;
    while (!(text = trim(text)).empty()) {
        if (any && text.front() == ',') text = trim(text.substr(1));
        if (!text.empty() && (text.front() == '+' || text.front() == '-')) text.remove_prefix(1);
        std::size_t end = 0;
        bool clock = false;
        while (end < text.size() && (is_digit(text[end]) || text[end] == '.' || text[end] == ':'))
            clock |= text[end++] == ':';
        if (end == 0 || !is_digit(text[0])) return false;
        text = text.substr(end);
        any = true;
        if (clock) continue;
        text = trim(text);
        end = 0;
        while (end < text.size() && text[end] != ' ' && text[end] != '\t' && text[end] != ',' && !is_digit(text[end]))
            ++end;
        if (!is_unit(text.substr(0, end))) return false;
        text = text.substr(end);
    }
    return any;
}

std::string_view unquoted(std::string_view text) {
    const bool quoted =
        text.size() >= 2 && text.front() == text.back() && (text.front() == '\'' || text.front() == '"');
    return quoted ? trim(text.substr(1, text.size() - 2)) : text;
}

// Removes `after <interval>` from the end of the text.
bool take_after(std::string_view& head, Label& label) {
    for (std::size_t at = head.size(); at-- > 0;) {
        if (!same_word(head.substr(at, 5), "after")) continue;
        const char before = at > 0 ? head[at - 1] : ' ';
        if (before != ' ' && before != '\t' && before != ')' && before != ']') continue;
        std::string_view rest = trim(head.substr(at + 5));
        const bool bracketed = rest.size() >= 2 && rest.front() == '(' && rest.back() == ')';
        if (bracketed) rest = trim(rest.substr(1, rest.size() - 2));
        rest = unquoted(rest);
        if (!is_interval(rest)) return false;
        label.after = rest;
        head = trim(head.substr(0, at));
        return true;
    }
    return false;
}

// Removes one bracketed list from the end of the text; false if it is not well formed.
bool take_list(std::string_view& head, char open, char close, std::vector<std::string>& list, bool may_be_empty) {
    if (head.empty() || head.back() != close) return true;
    const auto depths = bracket_depths(head);
    if (!depths) return false;
    std::size_t at = head.size() - 1;
    while (at-- > 0) {
        if (head[at] == open && (*depths)[at] == 0) break;
    }
    const std::string_view inside = trim(head.substr(at + 1, head.size() - at - 2));
    if (inside.empty()) {
        if (!may_be_empty) return false;
    } else {
        auto parts = split(inside);
        if (!parts) return false;
        list = std::move(*parts);
    }
    head = trim(head.substr(0, at));
    return true;
}

// The label by the grammar, or nothing when it does not fit.
std::optional<Label> read_by_grammar(std::string_view text) {
    const auto depths = bracket_depths(text);
    if (!depths) return std::nullopt;
    Label label;
    std::string_view head = text;
    if (const std::size_t slash = find_effects(text, *depths); slash != std::string_view::npos) {
        auto effects = split(text.substr(slash + 1));
        if (!effects) return std::nullopt;
        label.effects = std::move(*effects);
        head = trim(text.substr(0, slash));
    }
    const bool timed = take_after(head, label);
    if (!take_list(head, '[', ']', label.guards, false)) return std::nullopt;
    if (!timed) take_after(head, label);
    if (!take_list(head, '(', ')', label.params, true)) return std::nullopt;
    if (head.empty() && !label.params.empty()) return std::nullopt;
    label.event = head;
    return label;
}

std::string join(const std::vector<std::string>& parts) {
    std::string result;
    for (const std::string& part : parts) {
        if (!result.empty()) result += ", ";
        result += part;
    }
    return result;
}

}  // namespace

Label read_label(std::string_view text) {
    text = trim(text);
    std::optional<Label> label = read_by_grammar(text);
    // If printing and reading again gave another label, one diagram would become two machines.
    if (label) {
        const std::string print = write_label(*label);
        if (Scanner(print).rest_of_line() == print && read_by_grammar(print) == label) return std::move(*label);
    }
    Label plain;
    plain.event = text;
    return plain;
}

std::string write_label(const Label& label) {
    std::string text = label.event;
    const auto part = [&text](const std::string& what) {
        if (!text.empty()) text += ' ';
        text += what;
    };
    if (!label.params.empty()) text += "(" + join(label.params) + ")";
    if (!label.guards.empty()) part("[" + join(label.guards) + "]");
    if (!label.after.empty()) part("after " + label.after);
    if (!label.effects.empty()) part("/ " + join(label.effects));
    return text;
}

}  // namespace pawl::core
