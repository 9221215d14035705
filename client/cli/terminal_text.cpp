// May throw (out of memory).
#include "terminal_text.hpp"

#include "utf8.hpp"

namespace pawl::cli {

std::string without_controls(std::string_view text) {
    std::string clean;
    const auto escape = [&](unsigned char byte) {
        clean += "\\x";
        clean += "0123456789abcdef"[byte >> 4];
        clean += "0123456789abcdef"[byte & 15];
    };
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = character_at(text, at);
        const auto first = static_cast<unsigned char>(text[at]);
        const auto second = static_cast<unsigned char>(length == 2 ? text[at + 1] : 0);
        const bool is_c1 = first == 0xC2 && second < 0xA0 && length == 2;
        if (is_c1)
            escape(second);
        else if (length == 0 || (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F)
            escape(first);
        else
            clean.append(text, at, length);
        at += length > 0 ? length : 1;
    }
    return clean;
}

std::string one_line(std::string_view text) {
    std::string line;
    const std::string clean = without_controls(text);
    for (std::size_t at = 0; at < clean.size(); ++at) {
        const std::string_view rest = std::string_view(clean).substr(at);
        if (clean[at] == '\n' || clean[at] == '\t') {
            line += clean[at] == '\n' ? "\\x0a" : "\\x09";
        } else if (rest.starts_with("\xE2\x80\xA8") || rest.starts_with("\xE2\x80\xA9")) {
            line += rest[2] == '\xA8' ? "\\u2028" : "\\u2029";
            at += 2;
        } else {
            line += clean[at];
        }
    }
    return line;
}

}  // namespace pawl::cli
