// May throw.
#include "row_copy.hpp"

#include "utf8.hpp"

namespace pawl {
namespace {

// A value of COPY's text format.
void append_escaped(std::string& line, std::string_view text) {
    for (const char c : text) {
        switch (c) {
            case '\\':
                line += "\\\\";
                break;
            case '\n':
                line += "\\n";
                break;
            case '\r':
                line += "\\r";
                break;
            case '\t':
                line += "\\t";
                break;
            default:
                line += c;
        }
    }
}

}  // namespace

RowCopy::RowCopy(std::function<void(std::string_view)> put, const std::string& server_encoding, bool header)
    : put_(std::move(put)), database_(server_encoding), header_(header) {}

void RowCopy::add(const Record& record) {
    const bool readable = is_utf8(record.text), held = readable && database_.holds(record.text);
    const std::string strange = held        ? ""
                                : !readable ? "the row has bytes that are no characters"
                                            : "the row has characters that the database's encoding, " +
                                                  database_.encoding() + ", does not have";
    const std::string_view problem = !record.problem.empty() ? record.problem : std::string_view(strange);
    const std::int64_t row = header_seen_ || !header_ ? static_cast<std::int64_t>(++rows_) : 0;
    header_seen_ = true;
    if (!problem.empty() && row > 0) ++malformed_;
    append_escaped(pending_, held ? record.text
                                  : std::string_view(database_.printable(readable ? std::string(record.text)
                                                                                  : printable(record.text))));
    pending_ += '\t';
    problem.empty() ? void(pending_ += "\\N") : append_escaped(pending_, problem);
    // null: the line follows from the row number
    pending_ += record.line == row + (header_ ? 1 : 0) ? "\t\\N\n" : "\t" + std::to_string(record.line) + "\n";
    if (pending_.size() >= 1 << 16) flush();
}

void RowCopy::flush() {
    put_(pending_);
    pending_.clear();
}

}  // namespace pawl
