// Pure C++; may throw (memory). Splits a stream of CSV, NDJSON or a JSON array into records, and holds one of them at a
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace pawl {

enum class RecordFormat { csv, ndjson, json };

struct Record {
    std::string_view text;     // without its line end
    std::int64_t line = 0;     // its first line, from 1
    std::string_view problem;  // why it is malformed; empty: it is well-formed
};

class RecordSplitter {
public:
    struct Settings {
        RecordFormat format = RecordFormat::csv;
        char delimiter = ',';
        char quote = '"';               // NUL: none
        char escape = '\0';             // before a quote, or itself, in quotes; NUL: only a doubled quote
        std::size_t longest = 1 << 20;  // bytes; a longer one is malformed
    };

    RecordSplitter(const Settings& settings, std::function<void(const Record&)> take);

    void feed(std::string_view bytes);
    void finish();

    // Why the stream could not be split to its end; empty: it could. Earlier records were passed on.
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
    std::size_t begin_ = 0;  // start of the current row in the buffer
    std::size_t next_ = 0;   // next byte to look at
    std::int64_t line_ = 1;  // first line of the current row
    bool begun_ = false;
    bool quoted_ = false, after_escape_ = false;
    bool field_begins_ = true;
    bool skipping_ = false;     // in the rest of a row that is too long
    unsigned open_quotes_ = 0;  // consecutive lines with a quote that nothing closes
    int depth_ = 0;
    bool in_text_ = false, escaped_ = false, in_element_ = false, comma_ = false, ended_ = false;
};

}  // namespace pawl
