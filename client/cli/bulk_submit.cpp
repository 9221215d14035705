// May throw. pawl bulk submit: a file becomes an operation; and how it is watched until it ends.
#include <chrono>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>

#include <sys/ioctl.h>
#include <unistd.h>

#include <pawl/bulk.hpp>

#include "bulk_commands.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

struct Arguments {
    BulkRequest request;
    std::string metadata = "{}", notify = "null", delimiter, quote = "\"", escape, columns;
    std::vector<std::string> renamed;
    bool no_header = false, follow = false;
};

// One character; what a shell makes hard to write has a name.
char one_character(const std::string& option, const std::string& given) {
    if (given == "tab" || given == "\\t") return '\t';
    if (given.size() != 1 || given[0] == '\n' || given[0] == '\r' || static_cast<unsigned char>(given[0]) >= 0x80)
        usage_error(option + " must be one ASCII character, or tab");
    return given[0];
}

BulkRequest complete(const Arguments& given) {
    BulkRequest request = given.request;
    request.metadata = json_of("--metadata", given.metadata);
    request.notifications = json_of("--notify", given.notify);
    if (!given.delimiter.empty()) request.delimiter = one_character("--delimiter", given.delimiter);
    request.quote = given.quote == "none" ? '\0' : one_character("--quote", given.quote);
    if (!given.escape.empty()) request.escape = one_character("--escape", given.escape);
    request.header = !given.no_header;
    std::istringstream list(given.columns);
    for (std::string name; std::getline(list, name, ',');) request.columns.push_back(name);
    if (given.no_header && request.columns.empty()) usage_error("--no-header needs --columns");
    for (const std::string& pair : given.renamed) {
        const auto equals = pair.find('=');
        if (equals == std::string::npos) usage_error("--rename is column=field");
        request.renamed[pair.substr(0, equals)] = pair.substr(equals + 1);
    }
    return request;
}

// On a terminal one line that is written over; elsewhere a line a second. What a program reads is left alone.
class Progress {
public:
    explicit Progress(const Program& program) : quiet_(program.output.json), live_(::isatty(STDERR_FILENO) == 1) {}
    ~Progress() {
        if (drawn_) std::cerr << '\n';
    }

    // `news`: of the line, what is worth another one elsewhere than on a terminal.
    void tell(const std::string& line, const std::string& news, bool last = false) {
        const std::string& now = live_ ? line : news;
        if (quiet_ || now == before_) return;
        if (live_) {
            std::cerr << "\r\033[K" << line.substr(0, width()) << std::flush;
            drawn_ = true;
        } else {
            if (!last && std::chrono::steady_clock::now() - told_ < std::chrono::seconds(1)) return;
            std::cerr << line << '\n';
            told_ = std::chrono::steady_clock::now();
        }
        before_ = now;
    }

private:
    // A line that wraps could not be written over.
    static std::size_t width() {
        winsize size{};
        return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1U : std::string::npos;
    }

    bool quiet_, live_, drawn_ = false;
    std::string before_;
    std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

std::string percent_bar(std::uint64_t done, std::uint64_t total) {
    const int percent = total > 0 ? static_cast<int>(std::min<std::uint64_t>(100, done * 100 / total)) : 0;
    const int full = percent * 40 / 100;
    return "[" + std::string(static_cast<std::size_t>(full), '#') +
           std::string(static_cast<std::size_t>(40 - full), '.') + "] " + std::to_string(percent) + "%";
}

std::string line_of(const sql::Row& status, bool with_rate) {
    const std::string state = status["status"].as<std::string>();
    if (state == "Pending" || state == "Validating")
        return state + "  " + status["validated_rows"].as<std::string>() + " rows validated";
    std::string line =
        percent_bar(status["processed_rows"].as<std::uint64_t>(), status["total_rows"].as<std::uint64_t>()) + "  " +
        status["processed_rows"].as<std::string>() + " of " + status["total_rows"].as<std::string>() + " rows, " +
        status["failed_rows"].as<std::string>() + " failed";
    if (with_rate && !status["rate"].is_null()) line += ", " + status["rate"].as<std::string>() + " rows/s";
    return line + "  " + state + (status["paused_at"].is_null() ? "" : " (paused)");
}

}  // namespace

int follow_operation(const Program& program, pqxx::connection& connection, const std::string& operation) {
    Progress progress(program);
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(200))) {
        const auto found = operation_status(connection, operation);
        const std::string state = found[0]["status"].as<std::string>();
        const bool ended = !found[0]["completed_at"].is_null();
        progress.tell(line_of(found[0], true), line_of(found[0], false), ended);
        if (!ended) continue;
        return state == "Completed" ? fine : findings;
    }
}

void add_bulk_submit(Program& program, Command& bulk) {
    auto given = std::make_shared<Arguments>();
    BulkRequest& request = given->request;
    auto* command = bulk.add_subcommand("submit", "upload a file of rows as an operation and print its id");
    command->add_option("file", request.file, "CSV, NDJSON or a JSON array, plain or gzip; - is standard input")
        ->required();
    command->add_option("--operation", request.definition, "name of the definition")->required();
    command->add_option("--format", request.format, "csv, ndjson or json; default: as the file is called")
        ->check(IsMember{{"csv", "ndjson", "json"}});
    command->add_option("--delimiter", given->delimiter,
                        "between the fields of CSV: one character or tab; default: comma, tab for .tsv");
    command->add_option("--quote", given->quote, "around the fields of CSV; default: \"; none: there is none");
    command->add_option("--escape", given->escape,
                        "before a quote inside a quoted field; default: the quote, written twice");
    command->add_option("--columns", given->columns, "names of the columns of CSV, comma separated");
    command->add_flag("--no-header", given->no_header, "the first line is a row");
    command->add_option("--rename", given->renamed, "column=field: another name for a column of the header");
    command->add_option("--encoding", request.encoding,
                        "as iconv calls it; default: UTF-8, or UTF-16 by its byte order mark");
    command->add_option("--longest-row", request.longest_row, "bytes; a longer row is malformed; default: 1048576")
        ->check(Range{1000, 1 << 28});
    command->add_option("--metadata", given->metadata, "a JSON object");
    command->add_option("--notify", given->notify,
                        "notices of the end: [{\"channel\", \"target\", \"triggers\"}] as JSON");
    command->add_option("--key", request.idempotency_key, "idempotency key: the same again is the same operation");
    command->add_flag("--once", request.once, "the checksum of the file is the key");
    command->add_option("--created-by", request.created_by, "default: the database user");
    command->add_option("--priority", request.priority, "higher is earlier");
    command->add_option("--version", request.version, "of the definition; default: the newest");
    command->add_flag("--follow", given->follow, "wait until it ends");
    command->callback([&program, given] {
        program.chosen = [&program, given]() -> int {
            BulkSubmitted made;
            {
                Progress progress(program);
                made = submit_bulk(program.connection, complete(*given), [&](const BulkProgress& now) {
                    const std::string line = (now.size > 0 ? percent_bar(now.read, now.size) + "  " : "") +
                                             std::to_string(now.rows) + " rows uploaded";
                    progress.tell(line, line);
                });
            }
            if (!made.input_error.empty())
                std::cerr << "pawl: the input could not be read to its end: " << without_controls(made.input_error)
                          << '\n';
            if (!given->follow || !program.output.json)
                print(program.output,
                      {{"operation", made.operation},
                       {"created", made.created},
                       {"rows", made.rows},
                       {"malformed", made.malformed},
                       {"checksum", made.checksum},
                       {"input_error", made.input_error.empty() ? nlohmann::ordered_json()
                                                                : nlohmann::ordered_json(made.input_error)}},
                      made.operation);
            if (!given->follow) return made.input_error.empty() ? fine : findings;
            const auto connected = connect(program.connection);
            const int ended = follow_operation(program, *connected, made.operation);
            if (program.output.json) print_operation(program, *connected, made.operation);
            return ended;
        };
    });
}

}  // namespace pawl::cli
