// Pure C++; may throw (memory). See csv.hpp.
#include "core/csv.hpp"

#include <algorithm>

namespace pawl::core {
namespace {

// The field that begins at `at`, quoted; `at` ends behind its closing quote. False: there is none.
bool read_quoted(std::string_view record, std::size_t& at, const CsvDialect& dialect, std::string& field) {
    const char marks[] = {dialect.quote, dialect.escape};
    for (++at;;) {
        const std::size_t end = dialect.escape == '\0' ? record.find(dialect.quote, at)
                                                       : record.find_first_of(std::string_view(marks, 2), at);
        if (end == std::string_view::npos) return false;
        field.append(record, at, end - at);
        at = end + 1;
        const char next = at < record.size() ? record[at] : '\0';
        if (record[end] == dialect.quote && (at == record.size() || next != dialect.quote)) return true;
        const bool written = at < record.size() && (next == dialect.quote || next == dialect.escape);
        field += written ? next : record[end];  // an escape before any other character stands for itself
        if (written) ++at;
    }
}

}  // namespace

std::string_view split_csv(std::string_view record, const CsvDialect& dialect, std::vector<std::string>& fields) {
    fields.clear();
    if (!record.empty() && record.back() == '\r') record.remove_suffix(1);
    for (std::size_t at = 0;;) {
        std::string& field = fields.emplace_back();
        if (dialect.quote != '\0' && at < record.size() && record[at] == dialect.quote) {
            if (!read_quoted(record, at, dialect, field)) return "a quote is not closed";
            if (at < record.size() && record[at] != dialect.delimiter) return "text follows a closing quote";
        } else {
            const std::size_t end = std::min(record.find(dialect.delimiter, at), record.size());
            field.assign(record, at, end - at);
            at = end;
        }
        if (at >= record.size()) return {};
        ++at;
    }
}

bool ends_quoted(std::string_view line, const CsvDialect& dialect, bool inside) noexcept {
    if (dialect.quote == '\0') return false;
    bool begins = !inside;  // of a field: only there a quote opens one
    for (std::size_t at = 0; at < line.size(); ++at) {
        const char c = line[at];
        const char next = at + 1 < line.size() ? line[at + 1] : '\0';
        if (!inside) {
            inside = begins && c == dialect.quote;
            begins = c == dialect.delimiter;
        } else if (dialect.escape != '\0' && c == dialect.escape && (next == dialect.quote || next == dialect.escape)) {
            ++at;
        } else if (c == dialect.quote) {
            if (next == dialect.quote)
                ++at;
            else
                inside = false;
        }
    }
    return inside;
}

}  // namespace pawl::core
