// Pure C++; throws core::Error. See code_block.hpp.
#include "code_block.hpp"

#include <algorithm>

#include "scanner.hpp"

namespace pawl::core {
namespace {

std::string_view line_at(std::string_view text, std::size_t start) {
    return text.substr(start, std::min(text.find('\n', start), text.size()) - start);
}

// The number of marks that a line begins with.
std::size_t marks(std::string_view line, char mark) {
    return std::min(line.find_first_not_of(mark), line.size());
}

}  // namespace

std::optional<std::string> inside_code_block(std::string_view text) {
    std::size_t start = 0;
    while (start < text.size() && trim(line_at(text, start)).empty()) start += line_at(text, start).size() + 1;
    if (start >= text.size()) return {};
    const std::string_view opening = trim(line_at(text, start));
    const char mark = opening.front();
    const std::size_t length = marks(opening, mark);
    const std::string_view info = trim(opening.substr(length));
    const std::string_view word = info.substr(0, info.find_first_of(" \t"));
    const bool named = same_word(word, "mermaid") || same_word(word, "{mermaid}");
    if (length < 3 || !(((mark == '`' || mark == '~') && (named || info.empty())) || (mark == ':' && named))) return {};

    const std::size_t begin = start + line_at(text, start).size();
    std::string inside(std::count(text.begin(), text.begin() + begin, '\n'), '\n');
    for (std::size_t at = begin + 1; at < text.size(); at += line_at(text, at).size() + 1) {
        const std::string_view line = trim(line_at(text, at));
        if (marks(line, mark) < length || marks(line, mark) < line.size()) continue;
        const std::size_t rest = at + line_at(text, at).size();
        if (const std::string_view more = trim(text.substr(rest)); !more.empty()) {
            Scanner scan(text);
            scan.back_to(more.data() - text.data());
            scan.fail("the end of the text after the diagram");
        }
        return inside.append(text.substr(begin, at - begin));
    }
    return inside.append(text.substr(begin));
}

std::string with_unix_ends(std::string_view text) {
    std::string unix_text;
    unix_text.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\r') {
            unix_text += text[i];
        } else if (i + 1 >= text.size() || text[i + 1] != '\n') {
            unix_text += '\n';
        }
    }
    return unix_text;
}

}  // namespace pawl::core
