// Pure C++; may throw (memory). Splits a CSV record into its fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pawl::core {

struct CsvDialect {
    char delimiter = ',';
    char quote = '"';    // NUL: none
    char escape = '\0';  // escapes a quote or itself, between quotes; NUL: only a doubled quote does
};

// Splits one CSV record, given without its line end. A quote opens a field only as its first character; inside, it is
// doubled. Returns what is wrong with the input, or an empty string.
std::string_view split_csv(std::string_view record, const CsvDialect& dialect, std::vector<std::string>& fields);

// Whether the line ends inside a quoted field, so that the next line belongs to the same CSV record. `inside`: the line
// begins inside a quoted field.
bool ends_quoted(std::string_view line, const CsvDialect& dialect, bool inside) noexcept;

}  // namespace pawl::core
