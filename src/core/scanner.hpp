// Pure C++; throws core::Error. Reads the text of a diagram token by token, with the line and column of each.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "error.hpp"

namespace pawl::core {

// Lower case of ASCII letters; other bytes stay as they are.
std::string lower(std::string_view text);
bool same_word(std::string_view a, std::string_view b) noexcept;

// The text without the blanks (ASCII and Unicode) at both ends.
std::string_view trim(std::string_view text) noexcept;

struct Name {
    std::string id;
    Place where;
    bool quoted = false;

    bool pseudo() const { return !quoted && id == "[*]"; }
};

class Scanner {
public:
    explicit Scanner(std::string_view text) : text_(text) {}

    bool at_end() const noexcept { return at_ >= text_.size(); }
    char peek(std::size_t ahead = 0) const noexcept { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
    bool sees(std::string_view token) const noexcept { return text_.substr(at_).starts_with(token); }
    bool accept(std::string_view token) noexcept;  // ignores case
    bool accept_word(std::string_view word);       // ignores case; the word must end there
    bool accept_below(
        std::string_view token) noexcept;  // also after empty lines and comments; if not found, nothing is consumed
    void expect(std::string_view token, std::string_view expected);

    void skip_blanks() noexcept;        // stays on the line
    void skip_to_statement() noexcept;  // blanks, empty lines, comments, directives, ';'
    bool at_statement_end() noexcept;   // skips blanks; true before a line end, a comment, ';', '}' or the end
    bool at_line_end() noexcept;        // skips blanks; true before a line end, a comment or the end

    // A bare or quoted name; the id is empty if there is none here. In a list a comma ends it.
    Name name(bool in_list = false);
    Name as_name(std::string_view quoted_text, Place where);  // fails if it cannot be a name
    Name expect_name(std::string_view expected, bool in_list = false);

    std::string_view quoted();        // "...", may span lines; the scanner stands on the opening quote
    std::string_view rest_of_line();  // trimmed, without a trailing comment
    std::string_view line();          // the whole line from here, as it is; goes to the next one
    std::string_view until(char stop, std::string_view expected);

    std::size_t position() const noexcept { return at_; }
    void back_to(std::size_t position) noexcept { at_ = position; }

    Place here() { return place(at_); }
    Place place(std::size_t position);

    [[noreturn]] void fail(std::string_view expected);
    [[noreturn]] void fail(std::string message, Place where, std::string hint = {});

private:
    std::size_t blank_at(std::size_t position) const noexcept;  // bytes of the blank there, 0 if none
    bool name_goes_on(std::size_t start, bool in_list) const noexcept;
    std::string found();
    std::string_view line_around(std::size_t position) const noexcept;

    std::string_view text_;
    std::size_t at_ = 0;
    bool directives_closed_ = true;  // false once a "%%{" without an end was seen
    std::size_t known_position_ = 0;
    Place known_{1, 1};
};

}  // namespace pawl::core
