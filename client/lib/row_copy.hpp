// May throw. Records as lines of COPY pawl_bulk.input (raw, problem, line_number) FROM STDIN; what cannot be read
// becomes a malformed row.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "database_text.hpp"
#include "records.hpp"

namespace pawl {

class RowCopy {
public:
    // put is called with several lines at a time. header: the first line names the columns and is no row.
    RowCopy(std::function<void(std::string_view)> put, const std::string& server_encoding, bool header);

    void add(const Record& record);
    void flush();

    std::uint64_t rows() const noexcept { return rows_; }
    std::uint64_t malformed() const noexcept { return malformed_; }
    bool header_seen() const noexcept { return header_seen_; }

private:
    std::function<void(std::string_view)> put_;
    DatabaseText database_;
    std::string pending_;
    std::uint64_t rows_ = 0, malformed_ = 0;
    bool header_;
    bool header_seen_ = false;
};

}  // namespace pawl
