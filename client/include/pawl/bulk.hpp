// Bulk operations (pawl_bulk) from C++: a file is streamed into an operation, and results are streamed out. Memory does
// not grow with the file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <pawl/connection.hpp>

namespace pawl {

/// What to submit. Only the definition and the file are required.
struct BulkRequest {
    std::string definition;
    std::string file = "-";   ///< Plain or gzip; "-": standard input.
    std::string format = {};  ///< csv, ndjson or json (an array). Default: by the file's name.
    nlohmann::json metadata = nlohmann::json::object();
    char delimiter = '\0';                            ///< Default: comma; tab for .tsv.
    char quote = '"';                                 ///< NUL: none.
    char escape = '\0';                               ///< Before a quote in quotes. Default: the quote itself.
    std::size_t longest_row = 1 << 20;                ///< Bytes, 1000 to 256 MiB. A longer row is malformed.
    bool header = true;                               ///< The first line of the CSV names its columns.
    std::vector<std::string> columns = {};            ///< Column names, for a CSV without a header or in place of it.
    std::map<std::string, std::string> renamed = {};  ///< Columns of the header to rename: {"column", "field"}.
    std::string encoding = {};  ///< As iconv names it. Default: UTF-8, or UTF-16 by its byte order mark.
    std::optional<std::string> idempotency_key = std::nullopt;
    bool once = false;  ///< The file's checksum is the idempotency key. Not for standard input.
    std::optional<std::string> created_by = std::nullopt;
    int priority = 0;                           ///< Higher is earlier.
    nlohmann::json notifications = nullptr;     ///< Notices of the end: [{"channel", "target", "triggers"}].
    std::optional<int> version = std::nullopt;  ///< Default: the newest.
};

/// How far an upload is.
struct BulkProgress {
    std::uint64_t rows = 0;
    std::uint64_t read = 0;  ///< Bytes of the file, compressed as it is.
    std::uint64_t size = 0;  ///< Bytes; 0: unknown.
};

/// What was submitted.
struct BulkSubmitted {
    std::string operation;
    bool created = true;  ///< False: an operation with the same idempotency key exists, and this is its id.
    std::uint64_t rows = 0;
    std::uint64_t malformed = 0;   ///< Rows that could not be read. They fail validation.
    std::string checksum = {};     ///< SHA-256 of the uncompressed file.
    std::string input_error = {};  ///< Why the file could not be read to its end. The operation will fail.
};

/// Uploads a file in one transaction on a connection of its own: a failed upload leaves nothing. If the answer to
/// COMMIT is lost, a new connection asks for its outcome.
/// @param progress called about ten times a second
/// @throws ConnectionLost, Error; with an empty SQLSTATE if the request or the file is at fault
BulkSubmitted submit_bulk(const ConnectionSettings& settings, const BulkRequest& request,
                          const std::function<void(const BulkProgress&)>& progress = {});

/// Runs a COPY ... TO STDOUT, such as pawl_bulk.export_command returns. `consume` gets one line at a time.
/// @throws ConnectionLost, Error
void copy_out(const ConnectionSettings& settings, const std::string& command,
              const std::function<void(std::string_view)>& consume);

}  // namespace pawl
