// Bulk operations from C++: a file is streamed into an operation, its result streamed out. Memory does not grow with the file.
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

// What to submit. Only the definition and the file are needed.
struct BulkRequest {
    std::string definition;
    std::string file = "-";                      // plain or gzip; - is standard input
    std::string format = {};                     // csv, ndjson or json (an array); default: as the file is called
    nlohmann::json metadata = nlohmann::json::object();
    char delimiter = '\0';                       // default: comma, a tab for .tsv
    char quote = '"';                            // NUL: none
    char escape = '\0';                          // before a quote inside of quotes; default: the quote itself
    std::size_t longest_row = 1 << 20;           // bytes; what is longer is a malformed row
    bool header = true;                          // the first line of the CSV names its columns
    std::vector<std::string> columns = {};       // their names, without a header or instead of it
    std::map<std::string, std::string> renamed = {};  // columns of the header that are called otherwise: {"column", "field"}
    std::string encoding = {};                   // as iconv calls it; default: UTF-8, or UTF-16 by its byte order mark
    std::optional<std::string> idempotency_key = std::nullopt;
    bool once = false;                           // the file's checksum is the key; not from standard input
    std::optional<std::string> created_by = std::nullopt;
    int priority = 0;                            // higher is earlier
    nlohmann::json notifications = nullptr;      // [{"channel", "target", "triggers"}]: who is told how it ends
    std::optional<int> version = std::nullopt;   // default: the newest
};

struct BulkProgress {
    std::uint64_t rows = 0;
    std::uint64_t read = 0;  // bytes of the file as it lies on the disk
    std::uint64_t size = 0;  // 0: not known
};

struct BulkSubmitted {
    std::string operation;
    bool created = true;         // false: the operation of the same idempotency key, which is there already
    std::uint64_t rows = 0;
    std::uint64_t malformed = 0; // rows of them that could not be read; those fail validation
    std::string checksum = {};   // SHA-256, gzip undone
    std::string input_error = {};  // why the file could not be read to its end; the operation will fail
};

// One transaction on a connection of its own: nothing is left of an upload that fails, and a COMMIT whose answer is lost is asked
// after. `progress` is told now and then.
BulkSubmitted submit_bulk(const ConnectionSettings& settings, const BulkRequest& request,
                          const std::function<void(const BulkProgress&)>& progress = {});

// Streams what pawl_bulk.export_command (any COPY ... TO STDOUT) gives.
void copy_out(const ConnectionSettings& settings, const std::string& command, const std::function<void(std::string_view)>& take);

}  // namespace pawl
