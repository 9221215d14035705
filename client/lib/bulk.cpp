// May throw. Files into bulk operations: read, split, copied, all in pieces.
#include <pawl/bulk.hpp>

#include <chrono>
#include <thread>

#include <pawl/errors.hpp>

#include "input_file.hpp"
#include "libpq.hpp"
#include "records.hpp"
#include "row_copy.hpp"
#include "sql.hpp"

namespace pawl {
namespace {

using Clock = std::chrono::steady_clock;

bool ends_with(const std::string& name, const std::string& end) {
    return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

// Sets the format by the name of the file. Throws Error.
void complete(BulkRequest& request) {
    std::string name = request.file;
    if (ends_with(name, ".gz")) name.resize(name.size() - 3);
    if (request.format.empty())
        request.format = ends_with(name, ".csv") || ends_with(name, ".tsv")        ? "csv"
                         : ends_with(name, ".ndjson") || ends_with(name, ".jsonl") ? "ndjson"
                         : ends_with(name, ".json")                                ? "json"
                                                                                   : "";
    if (request.format != "csv" && request.format != "ndjson" && request.format != "json")
        throw Error("", request.format.empty()
                            ? "the name of the file does not tell its format: csv, ndjson or json must be given"
                            : "unknown format " + request.format + ": csv, ndjson or json");
    if (request.delimiter == '\0') request.delimiter = ends_with(name, ".tsv") ? '\t' : ',';
    if (request.longest_row < 1000 || request.longest_row > (1U << 28))
        throw Error("", "the longest row must be from 1,000 bytes to 256 MiB");
    if (request.once && request.file == "-")
        throw Error("", "the checksum of standard input is unknown before its end: use an idempotency key");
}

std::string checksum_of(const BulkRequest& request) {
    InputFile file(request.file, "");
    while (!file.read().empty()) {
    }
    return file.checksum();
}

std::string without_folders(const std::string& name) {
    return name.substr(name.rfind('/') + 1);
}

// As SQL has it: the quote, with the escape behind it, or nothing.
std::string quote_of(const BulkRequest& request) {
    if (request.quote == '\0') return "";
    return std::string(1, request.quote) + (request.escape == '\0' ? "" : std::string(1, request.escape));
}

BulkSubmitted create(LibpqSession& session, const BulkRequest& request, const std::optional<std::string>& key) {
    nlohmann::json dialect = nlohmann::json::object();
    if (request.format == "csv") {
        dialect = {
            {"delimiter", std::string(1, request.delimiter)}, {"quote", quote_of(request)}, {"header", request.header}};
        if (!request.renamed.empty()) dialect["map"] = request.renamed;
    }
    const auto made = session.run(
        "SELECT s.operation, s.created FROM pawl_bulk.submit($1, metadata => $2::jsonb, format => $3, columns => "
        "$4::text[], dialect => $5::jsonb,"
        " idempotency_key => $6, file_name => $7, source => $8, created_by => $9, priority => $10::integer, version => "
        "$11::integer, notifications => $12::jsonb) s",
        {request.definition, request.metadata.dump(), request.format,
         request.columns.empty() ? std::nullopt : std::optional(sql::text_array(request.columns)), dialect.dump(), key,
         request.file == "-" ? std::nullopt : std::optional(without_folders(request.file).substr(0, 200)),
         request.file == "-" ? "standard input" : "file", request.created_by, std::to_string(request.priority),
         request.version ? std::optional(std::to_string(*request.version)) : std::nullopt,
         request.notifications.is_null() ? std::nullopt : std::optional(request.notifications.dump())});
    BulkSubmitted submitted;
    submitted.operation = value_of(made.get(), 0, 0);
    submitted.created = value_of(made.get(), 0, 1)[0] == 't';
    return submitted;
}

void copy_in(LibpqSession& session, const BulkRequest& request, InputFile& file, BulkSubmitted& submitted,
             const std::function<void(const BulkProgress&)>& progress) {
    session.begin_copy("COPY pawl_bulk.input (raw, problem, line_number) FROM STDIN");
    RowCopy upload([&](std::string_view lines) { session.put(lines); }, session.server_encoding(),
                   request.format == "csv" && request.header);
    const RecordFormat format = request.format == "csv"      ? RecordFormat::csv
                                : request.format == "ndjson" ? RecordFormat::ndjson
                                                             : RecordFormat::json;
    RecordSplitter splitter({.format = format,
                             .delimiter = request.delimiter,
                             .quote = request.quote,
                             .escape = request.escape,
                             .longest = request.longest_row},
                            [&](const Record& record) { upload.add(record); });
    Clock::time_point told = Clock::now();
    for (std::string_view bytes; splitter.broken().empty() && !(bytes = file.read()).empty();) {
        splitter.feed(bytes);
        if (progress && Clock::now() - told >= std::chrono::milliseconds(100)) {
            told = Clock::now();
            progress({upload.rows(), file.position(), file.size()});
        }
    }
    if (file.broken().empty()) splitter.finish();
    upload.flush();
    session.end_copy();
    submitted.rows = upload.rows();
    submitted.malformed = upload.malformed();
    submitted.input_error = file.broken().empty() ? splitter.broken() : file.broken();
    submitted.checksum = file.checksum();
    if (request.format == "csv" && request.header && request.columns.empty() && !upload.header_seen() &&
        !submitted.input_error.empty())
        throw Error("", submitted.input_error);
    if (progress) progress({submitted.rows, file.position(), file.size()});
}

// Whether a transaction was committed whose COMMIT got no answer.
bool was_committed(const ConnectionSettings& settings, const std::string& transaction) {
    LibpqSession session(settings);
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
        const auto said =
            session.run("SELECT coalesce(pg_catalog.pg_xact_status($1::pg_catalog.xid8), 'aborted')", {transaction});
        const std::string status = value_of(said.get(), 0, 0);
        if (status != "in progress") return status == "committed";
    }
}

void commit(LibpqSession& session, const ConnectionSettings& settings) {
    const auto said = session.run("SELECT pg_catalog.pg_current_xact_id_if_assigned()");
    const std::string transaction = PQgetisnull(said.get(), 0, 0) ? "" : value_of(said.get(), 0, 0);
    try {
        session.run("COMMIT");
    } catch (const ConnectionLost&) {
        if (transaction.empty() || !was_committed(settings, transaction)) throw;
    }
}

}  // namespace

BulkSubmitted submit_bulk(const ConnectionSettings& settings, const BulkRequest& given,
                          const std::function<void(const BulkProgress&)>& progress) {
    BulkRequest request = given;
    complete(request);
    const std::optional<std::string> key = request.once ? checksum_of(request) : request.idempotency_key;
    InputFile file(request.file, request.encoding);
    LibpqSession session(settings);
    session.run("BEGIN");
    BulkSubmitted submitted = create(session, request, key);
    if (submitted.created) {
        copy_in(session, request, file, submitted, progress);
        if (request.once && submitted.checksum != *key) throw Error("", "the file changed while it was read");
        session.run(
            "SELECT pawl_bulk.seal($1::uuid, $2, $3)",
            {submitted.operation, submitted.input_error.empty() ? std::nullopt : std::optional(submitted.input_error),
             submitted.checksum});
    }
    commit(session, settings);
    return submitted;
}

void copy_out(const ConnectionSettings& settings, const std::string& command,
              const std::function<void(std::string_view)>& take) {
    LibpqSession(settings).copy_out(command, take);
}

}  // namespace pawl
