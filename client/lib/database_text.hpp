// May throw. Text for a database whose encoding has fewer characters than UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace pawl {

class DatabaseText {
public:
    // server_encoding: as the server names it.
    explicit DatabaseText(const std::string& encoding);
    ~DatabaseText();
    DatabaseText(const DatabaseText&) = delete;
    DatabaseText& operator=(const DatabaseText&) = delete;

    bool holds(std::string_view utf8) const;

    // The text with missing characters as \u{...}.
    std::string printable(std::string_view utf8) const;

    const std::string& encoding() const noexcept { return encoding_; }

private:
    std::string encoding_;
    void* converter_;
};

}  // namespace pawl
