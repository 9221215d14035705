// Pure C++; may throw (memory). One record of CSV into its fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pawl::core {

struct CsvDialect {
    char delimiter = ',';
    char quote = '"';    // NUL: none
    char escape = '\0';  // before a quote, or itself, between quotes; NUL: none but the quote written twice
};

// The fields of one record, without the end of its line. A quote opens a field only as its first character; inside, it
// is written twice. Returns what is wrong with the record; empty: nothing.
std::string_view split_csv(std::string_view record, const CsvDialect& dialect, std::vector<std::string>& fields);

// Whether a record goes on behind this line, in a field that is quoted; inside: it was in one already when the line
// began.
bool ends_quoted(std::string_view line, const CsvDialect& dialect, bool inside) noexcept;

}  // namespace pawl::core
