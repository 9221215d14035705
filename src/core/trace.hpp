// Does not throw. W3C trace context: what a traceparent and a tracestate may look like.
#pragma once

#include <cstddef>
#include <string_view>

namespace pawl::core {

namespace trace_detail {

constexpr bool is_hex(std::string_view text) noexcept {
    for (const char c : text)
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
    return true;
}

constexpr bool is_zero(std::string_view text) noexcept {
    return text.find_first_not_of('0') == std::string_view::npos;
}

constexpr bool is_small(char c) noexcept {
    return c >= 'a' && c <= 'z';
}
constexpr bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

constexpr bool is_key(std::string_view key) noexcept {
    const std::size_t at = key.find('@');
    const std::string_view system = at == std::string_view::npos ? key : key.substr(at + 1);
    if (key.empty() || key.size() > 256 || system.empty() ||
        (!is_small(system[0]) && (at != std::string_view::npos || !is_digit(system[0]))))
        return false;
    if (at != std::string_view::npos &&
        (at == 0 || at > 241 || system.size() > 14 || (!is_small(key[0]) && !is_digit(key[0]))))
        return false;
    for (std::size_t i = 0; i < key.size(); ++i) {
        const char c = key[i];
        if (!is_small(c) && !is_digit(c) && c != '_' && c != '-' && c != '*' && c != '/' && i != at) return false;
    }
    return true;
}

constexpr bool is_value(std::string_view value) noexcept {
    if (value.empty() || value.size() > 256 || value.back() == ' ') return false;
    for (const char c : value)
        if (c < 0x20 || c > 0x7e || c == ',' || c == '=') return false;
    return true;
}

constexpr std::string_view trimmed(std::string_view text) noexcept {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

}  // namespace trace_detail

// version "-" trace-id "-" parent-id "-" flags. Later versions may append fields.
constexpr bool is_traceparent(std::string_view text) noexcept {
    using namespace trace_detail;
    if (text.size() < 55 || text.size() > 512 || text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
    const std::string_view version = text.substr(0, 2);
    if (!is_hex(version) || version == "ff") return false;
    if (text.size() > 55 && (version == "00" || text[55] != '-')) return false;
    for (const char c : text)
        if (c < 0x21 || c > 0x7e) return false;
    const std::string_view trace = text.substr(3, 32), parent = text.substr(36, 16);
    return is_hex(trace) && !is_zero(trace) && is_hex(parent) && !is_zero(parent) && is_hex(text.substr(53, 2));
}

// At most 32 members key=value; empty members are ignored.
constexpr bool is_tracestate(std::string_view text) noexcept {
    using namespace trace_detail;
    if (text.size() > 4096) return false;
    int members = 0;
    while (!text.empty()) {
        const std::size_t comma = text.find(',');
        const std::string_view member = trimmed(text.substr(0, comma));
        text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
        if (member.empty()) continue;
        const std::size_t equals = member.find('=');
        if (equals == std::string_view::npos || !is_key(member.substr(0, equals)) ||
            !is_value(member.substr(equals + 1)) || ++members > 32)
            return false;
    }
    return members > 0;
}

// What a client sends as trace context: a traceparent, and behind a blank its tracestate.
struct Trace {
    std::string_view parent;  // empty: the headers are not valid
    std::string_view state;   // empty: none, or not valid
};

constexpr Trace read_trace(std::string_view headers) noexcept {
    const std::size_t blank = headers.find(' ');
    const std::string_view parent = headers.substr(0, blank);
    if (!is_traceparent(parent)) return {};
    const std::string_view state = blank == std::string_view::npos ? std::string_view() : headers.substr(blank + 1);
    return {parent, is_tracestate(state) ? state : std::string_view()};
}

constexpr std::string_view trace_id(std::string_view traceparent) noexcept {
    return traceparent.substr(3, 32);
}

}  // namespace pawl::core
