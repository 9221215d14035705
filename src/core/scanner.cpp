// Pure C++; throws core::Error. See scanner.hpp.
#include "scanner.hpp"

#include <algorithm>

namespace pawl::core {
namespace {

char lower_char(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_control(char c) noexcept {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

// Length in bytes of the blank at the start of the text; a line end is no blank.
std::size_t blank_length(std::string_view text) noexcept {
    if (text.empty()) return 0;
    switch (text[0]) {
        case ' ':
        case '\t':
        case '\r':
        case '\v':
        case '\f':
            return 1;
        default:
            break;
    }
    if (static_cast<unsigned char>(text[0]) < 0x80) return 0;
    if (text.starts_with("\xC2\xA0")) return 2;
    if (text.starts_with("\xEF\xBB\xBF") || text.starts_with("\xE3\x80\x80") || text.starts_with("\xE2\x80\xAF"))
        return 3;
    // U+2000 to U+200B; anything below 0x80 is the character after a sequence that was cut off.
    if (text.size() >= 3 && text.starts_with("\xE2\x80") && (text[2] & 0xF0) == 0x80 && (text[2] & 0x0F) <= 0x0B)
        return 3;
    return 0;
}

std::string_view trim_front(std::string_view text) noexcept {
    while (!text.empty()) {
        const std::size_t length = text[0] == '\n' ? 1 : blank_length(text);
        if (length == 0) break;
        text.remove_prefix(length);
    }
    return text;
}

std::string_view trim_back(std::string_view text) noexcept {
    while (!text.empty()) {
        if (text.back() == '\n' || blank_length(text.substr(text.size() - 1)) == 1) {
            text.remove_suffix(1);
        } else if (text.size() >= 2 && blank_length(text.substr(text.size() - 2)) == 2) {
            text.remove_suffix(2);
        } else if (text.size() >= 3 && blank_length(text.substr(text.size() - 3)) == 3) {
            text.remove_suffix(3);
        } else {
            break;
        }
    }
    return text;
}

}  // namespace

std::string lower(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(), lower_char);
    return result;
}

bool same_word(std::string_view a, std::string_view b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return lower_char(x) == lower_char(y); });
}

std::string_view trim(std::string_view text) noexcept {
    return trim_back(trim_front(text));
}

std::size_t Scanner::blank_at(std::size_t position) const noexcept {
    return blank_length(text_.substr(position));
}

bool Scanner::accept(std::string_view token) noexcept {
    if (!same_word(text_.substr(std::min(at_, text_.size()), token.size()), token)) return false;
    at_ += token.size();
    return true;
}

bool Scanner::accept_word(std::string_view word) {
    if (!same_word(text_.substr(at_, word.size()), word)) return false;
    const std::size_t start = at_;
    at_ += word.size();
    if (name_goes_on(start, false)) {
        at_ = start;
        return false;
    }
    return true;
}

bool Scanner::accept_below(std::string_view token) noexcept {
    const std::size_t start = at_;
    for (skip_blanks(); !at_end(); skip_blanks()) {
        if (peek() == '\n') {
            ++at_;
        } else if (sees("%%") || peek() == '#') {
            at_ = std::min(text_.find('\n', at_), text_.size());
        } else {
            break;
        }
    }
    if (accept(token)) return true;
    at_ = start;
    return false;
}

void Scanner::expect(std::string_view token, std::string_view expected) {
    if (!accept(token)) fail(expected);
}

void Scanner::skip_blanks() noexcept {
    while (const std::size_t length = blank_at(at_)) at_ += length;
}

void Scanner::skip_to_statement() noexcept {
    for (;;) {
        skip_blanks();
        if (at_end()) return;
        if (peek() == '\n' || peek() == ';') {
            ++at_;
        } else if (directives_closed_ && sees("%%{")) {
            const std::size_t end = text_.find("}%%", at_);
            if (end == std::string_view::npos) {
                directives_closed_ = false;
            } else {
                at_ = end + 3;
            }
        } else if (sees("%%") || peek() == '#') {
            at_ = std::min(text_.find('\n', at_), text_.size());
        } else {
            return;
        }
    }
}

bool Scanner::at_line_end() noexcept {
    skip_blanks();
    return at_end() || peek() == '\n' || sees("%%");
}

bool Scanner::at_statement_end() noexcept {
    return at_line_end() || peek() == ';' || peek() == '}';
}

bool Scanner::name_goes_on(std::size_t start, bool in_list) const noexcept {
    if (at_end() || is_control(peek()) || blank_at(at_) > 0) return false;
    const char next = peek(1);
    switch (peek()) {
        case ':':
        case '{':
        case '}':
        case ';':
        case '"':
            return false;
        case ',':
            return !in_list;
        case '%':
            return next != '%';
        case '<':
            return next != '<';
        case '[':
            return next != '[';
        case '-':
            if (at_ == start || at_ + 1 >= text_.size() || is_control(next) || blank_at(at_ + 1) > 0) return false;
            return std::string_view("->:{};,\"").find(next) == std::string_view::npos &&
                   text_.substr(at_ + 1, 2) != "%%";
        default:
            return true;
    }
}

Name Scanner::name(bool in_list) {
    Name result{{}, here()};
    if (peek() == '"') return as_name(quoted(), result.where);
    if (accept("[*]")) {
        result.id = "[*]";
        return result;
    }
    const std::size_t start = at_;
    while (name_goes_on(start, in_list)) ++at_;
    result.id = text_.substr(start, at_ - start);
    return result;
}

Name Scanner::as_name(std::string_view id, Place where) {
    if (trim(id).empty()) fail("a name cannot be empty", where);
    if (trim(id).size() != id.size() || std::any_of(id.begin(), id.end(), is_control)) {
        fail("a name cannot begin or end with blanks nor contain control characters", where);
    }
    if (id.starts_with("[*]")) fail("a name cannot begin with [*], the start and end of a diagram", where);
    return Name{std::string(id), where, true};
}

Name Scanner::expect_name(std::string_view expected, bool in_list) {
    Name result = name(in_list);
    if (result.id.empty()) fail(expected);
    return result;
}

std::string_view Scanner::quoted() {
    const Place where = here();
    const std::size_t start = ++at_;
    const std::size_t end = text_.find('"', start);
    if (end == std::string_view::npos) fail("a quoted text is not closed: expected '\"'", where);
    at_ = end + 1;
    return text_.substr(start, end - start);
}

std::string_view Scanner::rest_of_line() {
    const std::size_t start = at_;
    at_ = std::min(text_.find('\n', at_), text_.size());
    std::string_view rest = text_.substr(start, at_ - start);
    for (std::size_t mark = rest.find("%%"); mark != std::string_view::npos; mark = rest.find("%%", mark + 1)) {
        const std::string_view before = rest.substr(0, mark);
        if (before.empty() || trim_back(before).size() < before.size()) {
            rest = before;
            break;
        }
    }
    return trim(rest);
}

std::string_view Scanner::line() {
    const std::size_t start = at_;
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    at_ = std::min(end + 1, text_.size());
    return text_.substr(start, end - start);
}

std::string_view Scanner::until(char stop, std::string_view expected) {
    const std::size_t start = at_;
    const std::size_t end = text_.find(stop, at_);
    if (end == std::string_view::npos) fail("the text is not closed: expected " + std::string(expected), here());
    at_ = end + 1;
    return text_.substr(start, end - start);
}

// Places are nearly always asked for in rising order, so counting continues where it stopped last time.
Place Scanner::place(std::size_t position) {
    if (position < known_position_) {
        known_position_ = 0;
        known_ = {1, 1};
    }
    for (; known_position_ < position && known_position_ < text_.size(); ++known_position_) {
        const char c = text_[known_position_];
        if (c == '\n') {
            ++known_.line;
            known_.column = 1;
        } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
            ++known_.column;
        }
    }
    return known_;
}

std::string_view Scanner::line_around(std::size_t position) const noexcept {
    std::size_t start = std::min(position, text_.size());
    while (start > 0 && text_[start - 1] != '\n') --start;
    const std::size_t end = std::min(text_.find('\n', start), text_.size());
    return trim(text_.substr(start, end - start));
}

// What the text has here, as the end of an error message.
std::string Scanner::found() {
    skip_blanks();
    if (at_end()) return "the end of the diagram";
    if (peek() == '\n') return "the end of the line";
    std::size_t end = at_;
    while (end < text_.size() && text_[end] != '\n' && blank_at(end) == 0 && end - at_ < 40) ++end;
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0) == 0x80) ++end;
    return "\"" + std::string(text_.substr(at_, end - at_)) + "\"";
}

void Scanner::fail(std::string_view expected) {
    const std::string what = found();
    fail("expected " + std::string(expected) + ", found " + what, here());
}

void Scanner::fail(std::string message, Place where, std::string hint) {
    std::string_view line = line_around(at_);
    std::string detail;
    if (where.line == place(at_).line && !line.empty() && line.size() <= 200) {
        detail = "Line " + std::to_string(where.line) + " reads \"" + std::string(line) + "\".";
    }
    throw Error(std::move(message), where, std::move(detail), std::move(hint), "syntax_error");
}

}  // namespace pawl::core
