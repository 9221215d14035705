// Pure C++; may throw (memory). Finds the records in a stream of CSV, NDJSON or a JSON array, and remembers no more than one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace pawl {

enum class RecordFormat { csv, ndjson, json };

struct Record {
    std::string_view text;     // without the end of its line
    std::int64_t line = 0;     // where it begins, from 1
    std::string_view problem;  // why it is none; empty: it is one
};

class RecordSplitter {
public:
    struct Settings {
        RecordFormat format = RecordFormat::csv;
        char delimiter = ',';
        char quote = '"';               // NUL: none
        char escape = '\0';             // before a quote, or itself, between quotes; NUL: none but the quote written twice
        std::size_t longest = 1 << 20;  // bytes of a record; what is longer is a malformed one
    };

    RecordSplitter(const Settings& settings, std::function<void(const Record&)> take);

    void feed(std::string_view bytes);
    void finish();

    // Why the stream could not be split further; empty: it could. What came before was given out.
    const std::string& broken() const noexcept { return broken_; }

private:
    void split_lines();
    void split_array();
    void give(std::size_t end, std::string_view problem = {});
    void give_first_line(std::string_view problem);
    void give_beginning();
    bool quote_character(char c);
    std::size_t patience() const;
    void begin_at(std::size_t place);
    bool array_character(char c);

    Settings settings_;
    std::function<void(const Record&)> take_;
    std::string buffer_;
    std::string broken_;
    std::string too_long_;
    std::size_t begin_ = 0;  // of the record in the buffer
    std::size_t next_ = 0;   // what is looked at next
    std::int64_t line_ = 1;  // of the record
    bool begun_ = false;
    bool quoted_ = false, after_escape_ = false;
    bool field_begins_ = true;
    bool skipping_ = false;  // the rest of a record that is too long
    unsigned open_quotes_ = 0;  // lines in a row whose quote nothing closed
    int depth_ = 0;
    bool in_text_ = false, escaped_ = false, in_element_ = false, comma_ = false, ended_ = false;
};

}  // namespace pawl
