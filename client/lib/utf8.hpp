// Pure C++; may throw (memory). Text as a UTF-8 database takes it.
#pragma once

#include <string>
#include <string_view>

namespace pawl {

// The length in bytes of the character at `at`; 0 for an invalid one, and for NUL, which PostgreSQL has not.
inline std::size_t character_at(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const auto follows = [&](std::size_t i, unsigned least = 0x80, unsigned most = 0xBF) {
        return byte(i) >= least && byte(i) <= most;
    };
    const unsigned first = byte(at);
    if (first > 0 && first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) return follows(at + 1) ? 2 : 0;
    if (first >= 0xE0 && first <= 0xEF)
        return follows(at + 1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && follows(at + 2) ? 3 : 0;
    if (first >= 0xF0 && first <= 0xF4)
        return follows(at + 1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && follows(at + 2) &&
                       follows(at + 3)
                   ? 4
                   : 0;
    return 0;
}

inline bool is_utf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = character_at(text, at);
        if (length == 0) return false;
        at += length;
    }
    return true;
}

// The text as PostgreSQL can store it: invalid bytes and NUL are U+FFFD. Cut after `longest` bytes.
inline std::string storable(std::string_view text, std::size_t longest) {
    std::string clean;
    for (std::size_t at = 0; at < text.size() && clean.size() < longest;) {
        const std::size_t length = character_at(text, at);
        clean.append(length > 0 ? text.substr(at, length) : "\xEF\xBF\xBD");
        at += length > 0 ? length : 1;
    }
    return clean;
}

// The text with invalid bytes as \xHH.
inline std::string printable(std::string_view text) {
    std::string clean;
    for (std::size_t at = 0; at < text.size();) {
        if (const std::size_t length = character_at(text, at)) {
            clean.append(text, at, length);
            at += length;
            continue;
        }
        const auto byte = static_cast<unsigned char>(text[at++]);
        clean += "\\x";
        clean += "0123456789ABCDEF"[byte >> 4];
        clean += "0123456789ABCDEF"[byte & 15];
    }
    return clean;
}

}  // namespace pawl
