// Pure C++; may throw (memory).
#include "records.hpp"

#include <algorithm>
#include <utility>

namespace pawl {
namespace {

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

}  // namespace

RecordSplitter::RecordSplitter(const Settings& settings, std::function<void(const Record&)> take)
    : settings_(settings),
      take_(std::move(take)),
      too_long_("the row is longer than " + std::to_string(settings.longest) + " bytes") {}

void RecordSplitter::begin_at(std::size_t place) {
    line_ += std::count(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                        buffer_.begin() + static_cast<std::ptrdiff_t>(place), '\n');
    begin_ = next_ = place;
    quoted_ = after_escape_ = false;
    field_begins_ = true;
}

void RecordSplitter::give(std::size_t end, std::string_view problem) {
    std::string_view text(buffer_.data() + begin_, end - begin_);
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    if (!text.empty()) take_({text, line_, problem});
}

// The beginning of a row that is too long, cut between two characters.
void RecordSplitter::give_beginning() {
    std::size_t end = begin_ + std::min<std::size_t>(settings_.longest, 1000);
    while (end > begin_ + 1 && (static_cast<unsigned char>(buffer_[end]) & 0xC0) == 0x80) --end;
    give(end, too_long_);
}

// A quote that is not closed makes one line malformed, and not the rest of the file.
void RecordSplitter::give_first_line(std::string_view problem) {
    const std::size_t found = buffer_.find('\n', begin_);
    if (found != std::string::npos && found - begin_ <= settings_.longest) {
        give(found, problem);
        begin_at(found + 1);
        return;
    }
    const std::size_t end = std::min(found, buffer_.size());
    if (end - begin_ <= settings_.longest) {
        give(end, problem);
    } else {
        give_beginning();
        skipping_ = found == std::string::npos;
    }
    begin_at(found == std::string::npos ? buffer_.size() : found + 1);
}

// How far the end of a quote is looked for: less after each line whose quote nothing closed, or a file of such lines
// would be read again for every line of it.
std::size_t RecordSplitter::patience() const {
    return std::max<std::size_t>(std::min<std::size_t>(settings_.longest, 4096), settings_.longest >> open_quotes_);
}

// True: it belongs to quotes, or is inside.
bool RecordSplitter::quote_character(char c) {
    if (quoted_ && after_escape_) {
        after_escape_ = false;
        if (c == settings_.quote || c == settings_.escape) return true;
    }
    if (quoted_ && c == settings_.escape && c != settings_.quote && c != '\0') {
        after_escape_ = true;
    } else if (c == settings_.quote && c != '\0' && (quoted_ || field_begins_)) {
        quoted_ = !quoted_;
        field_begins_ = !quoted_;  // a second quote that follows is one of the text
        return true;
    }
    return quoted_;
}

void RecordSplitter::split_lines() {
    const bool quotes = settings_.format == RecordFormat::csv;
    while (next_ < buffer_.size()) {
        const char c = buffer_[next_];
        if (skipping_) {
            const std::size_t end = std::min(buffer_.find('\n', next_), buffer_.size() - 1);
            skipping_ = buffer_[end] != '\n';
            begin_at(end + 1);
            continue;
        }
        if (next_ - begin_ >= (quoted_ ? patience() : settings_.longest)) {
            if (quoted_) open_quotes_ = std::min(open_quotes_ + 1, 32U);
            give_first_line(quoted_ ? std::string_view("a quote is not closed") : too_long_);
            continue;
        }
        // a line that ends with CR alone would be lost in the one before it
        if (!quoted_ && c != '\n' && next_ > begin_ && buffer_[next_ - 1] == '\r') {
            broken_ = "line " + std::to_string(line_) + " has a carriage return in it: lines end with LF or CR LF";
            return;
        }
        if (quotes && quote_character(c)) {
            ++next_;
        } else if (c == '\n') {
            give(next_);
            begin_at(next_ + 1);
            if (open_quotes_ > 0) --open_quotes_;
        } else {
            field_begins_ = c == settings_.delimiter;
            ++next_;
        }
    }
}

// False: the element ends before this character.
bool RecordSplitter::array_character(char c) {
    if (in_text_) {
        if (escaped_)
            escaped_ = false;
        else if (c == '\\')
            escaped_ = true;
        else if (c == '"')
            in_text_ = false;
        return true;
    }
    if (c == '"') in_text_ = true;
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') {
        if (depth_ == 1) return false;
        --depth_;
    }
    return c != ',' || depth_ != 1;
}

void RecordSplitter::split_array() {
    for (; next_ < buffer_.size() && broken_.empty(); ++next_) {
        const char c = buffer_[next_];
        if (!in_element_) {
            if (is_space(c)) continue;
            if (depth_ == 0) {
                if (ended_ || c != '[')
                    broken_ = ended_ ? "text follows the JSON array" : "the input is no JSON array";
                else
                    depth_ = 1;
                continue;
            }
            begin_at(next_);
            in_element_ = true;
            if (c == ']' && !comma_) {
                in_element_ = false;
                depth_ = 0;
                ended_ = true;
                continue;
            }
        }
        if (array_character(c)) {
            if (!skipping_ && next_ - begin_ >= settings_.longest) {
                give_beginning();
                skipping_ = true;
            }
            continue;
        }
        std::size_t end = next_;
        while (end > begin_ && is_space(buffer_[end - 1])) --end;
        if (skipping_)
            skipping_ = false;
        else if (end == begin_)
            take_({"null", line_, "an element of the array is missing"});
        else
            give(end);
        in_element_ = false;
        comma_ = c == ',';
        ended_ = !comma_;
        depth_ = ended_ ? 0 : 1;
        if (c == '}') broken_ = "the JSON array ends with a brace";
    }
}

void RecordSplitter::feed(std::string_view bytes) {
    if (!broken_.empty()) return;
    buffer_.append(bytes);
    if (!begun_) {
        if (buffer_.size() < byte_order_mark.size() && byte_order_mark.substr(0, buffer_.size()) == buffer_) return;
        begun_ = true;
        if (buffer_.compare(0, byte_order_mark.size(), byte_order_mark) == 0) buffer_.erase(0, byte_order_mark.size());
    }
    if (settings_.format == RecordFormat::json) {
        split_array();
        if (!in_element_ || skipping_) begin_at(next_);
    } else {
        split_lines();
    }
    if (begin_ == 0) return;
    buffer_.erase(0, begin_);
    next_ -= begin_;
    begin_ = 0;
}

void RecordSplitter::finish() {
    if (!broken_.empty()) return;
    if (settings_.format == RecordFormat::json) {
        if (!ended_)
            broken_ = buffer_.empty() && depth_ == 0 ? "the input is no JSON array" : "the JSON array is not closed";
        return;
    }
    if (next_ < buffer_.size()) split_lines();  // what was too short to tell from a byte order mark
    while (quoted_ && begin_ < buffer_.size()) {
        open_quotes_ = std::min(open_quotes_ + 1, 32U);
        give_first_line("a quote is not closed");
        split_lines();
    }
    if (broken_.empty() && begin_ < buffer_.size()) give(buffer_.size());
    buffer_.clear();
    begin_ = next_ = 0;
}

}  // namespace pawl
