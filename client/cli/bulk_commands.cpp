// May throw. pawl bulk: bulk operations from the command line. Each command is one function or view of the pack.
#include "bulk_commands.hpp"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include <pawl/bulk.hpp>

#include "sql.hpp"

namespace pawl::cli {

sql::Rows operation_status(pqxx::connection& connection, const std::string& operation) {
    const auto found =
        sql::run_alone(connection, "SELECT s.* FROM pawl_bulk.status s WHERE s.operation = $1::uuid", operation);
    if (found.empty()) throw Error("P0002", "there is no operation " + operation);
    return found;
}

void print_operation(const Program& program, pqxx::connection& connection, const std::string& operation) {
    const auto found = operation_status(connection, operation);
    const auto value = as_json(found)[0];
    std::string text;
    for (const auto& [name, field] : value.items())
        if (!field.is_null())
            text += (text.empty() ? "" : "\n") + name + std::string(18 - std::min<std::size_t>(17, name.size()), ' ') +
                    (field.is_string() ? field.get<std::string>() : field.dump());
    print(program.output, value, text);
}

namespace {

struct Arguments {
    std::string operation, key, message, file, mode = "report", format = "csv", status, definition;
    std::vector<std::string> rows, types, steps, states;
    bool flag = false;
    int limit = 20;
};

using Shared = std::shared_ptr<Arguments>;

Shared of_operation(Command* command) {
    auto given = std::make_shared<Arguments>();
    command->add_option("operation", given->operation, "its id")->required();
    return given;
}

void add_filters(Command* command, const Shared& given) {
    command->add_option("--rows", given->rows, "only these row numbers, comma separated")->delimiter(',');
    command
        ->add_option("--error-type", given->types,
                     "only rows with these: Validation, StepFailure, Timeout, SignalFailure, Processing")
        ->delimiter(',');
    command->add_option("--step", given->steps, "only rows that failed at, or have come to, these steps, by name")
        ->delimiter(',');
}

// An array for the server, or null for all.
std::optional<std::string> listed(const std::vector<std::string>& texts) {
    return texts.empty() ? std::nullopt : std::optional(sql::text_array(texts));
}

void add_define(Program& program, Command& bulk) {
    auto given = std::make_shared<Arguments>();
    auto* command = bulk.add_subcommand("define", "define a version of an operation from JSON and print it");
    command->add_option("file", given->file, "as pawl_bulk.define takes it; - is standard input")->required();
    program.run(command, [&program, given](pqxx::connection& connection) {
        const auto made =
            sql::run_alone(connection, "SELECT pawl_bulk.define($1::jsonb) AS version", read_file(given->file));
        print(program.output, as_json(made)[0], "version " + made[0][0].as<std::string>());
        return fine;
    });
}

void add_status(Program& program, Command& bulk) {
    auto* command = bulk.add_subcommand(
        "status", "where an operation stands; with --follow ends with 1 unless it completes without errors");
    auto given = of_operation(command);
    command->add_flag("--follow", given->flag, "wait until it ends");
    program.run(command, [&program, given](pqxx::connection& connection) {
        const int ended = given->flag ? follow_operation(program, connection, given->operation) : fine;
        print_operation(program, connection, given->operation);
        return ended;
    });
}

void add_watch(Program& program, Command& bulk) {
    auto given = std::make_shared<Arguments>();
    auto* command = bulk.add_subcommand(
        "watch", "a live line of an operation until it ends; ends with 1 unless it completes without errors");
    command->add_option("operation", given->operation, "its id; default: the newest");
    program.run(command, [&program, given](pqxx::connection& connection) {
        std::string operation = given->operation;
        if (operation.empty()) {
            const auto newest = sql::run_alone(
                connection, "SELECT o.operation FROM pawl_bulk.operations o ORDER BY o.operation DESC LIMIT 1");
            if (newest.empty()) throw Error("P0002", "there is no operation yet");
            operation = newest[0][0].as<std::string>();
        }
        const int ended = follow_operation(program, connection, operation);
        if (program.output.json) print_operation(program, connection, operation);
        return ended;
    });
}

void add_list(Program& program, Command& bulk) {
    auto given = std::make_shared<Arguments>();
    auto* command = bulk.add_subcommand("list", "operations, the newest first");
    command->add_option("--status", given->status, "only those in this state");
    command->add_option("--operation", given->definition, "only those of this definition");
    command->add_option("--limit", given->limit, "at most so many, default 20")->check(Range{1, 100'000});
    program.run(command, [&program, given](pqxx::connection& connection) {
        print(program.output, sql::run_alone(connection,
                                             "SELECT s.operation, s.definition, s.status, s.total_rows AS rows, "
                                             "s.processed_rows AS processed, s.failed_rows AS failed, s.progress,"
                                             " s.file_name AS file, s.created_at, s.completed_at FROM pawl_bulk.status "
                                             "s WHERE ($1 = '' OR s.status = $1) AND ($2 = '' OR s.definition = $2)"
                                             " ORDER BY s.operation DESC LIMIT $3::integer",
                                             given->status, given->definition, given->limit));
        return fine;
    });
}

void add_errors(Program& program, Command& bulk) {
    auto* command = bulk.add_subcommand("errors", "why rows failed, by step and type; ends with 1 if there are any");
    auto given = of_operation(command);
    command->add_flag("--each", given->flag, "one line an error");
    command->add_option("--limit", given->limit, "at most so many lines, default 20")->check(Range{1, 1'000'000});
    program.run(command, [&program, given](pqxx::connection& connection) {
        operation_status(connection, given->operation);
        const auto found =
            given->flag
                ? sql::run_alone(connection,
                                 "SELECT e.row_number, e.row_id, e.step_name AS step, e.error_type, e.code, e.message, "
                                 "e.retry_attempt FROM pawl_bulk.errors e"
                                 " WHERE e.operation = $1::uuid ORDER BY e.row_number, e.step_index LIMIT $2::integer",
                                 given->operation, given->limit)
                : sql::run_alone(
                      connection,
                      "SELECT e.step_name AS step, e.error_type, e.code, e.rows, e.first_row, e.example FROM "
                      "pawl_bulk.error_summary e"
                      " WHERE e.operation = $1::uuid ORDER BY e.step_index, e.rows DESC, e.code LIMIT $2::integer",
                      given->operation, given->limit);
        print(program.output, found);
        return found.empty() ? fine : findings;
    });
}

void export_to(std::ostream& out, const Program& program, const std::string& command) {
    copy_out(program.connection, command, [&out](std::string_view bytes) {
        if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())))
            throw Error("", "the export could not be written to its end");
    });
    if (!out.flush()) throw Error("", "the export could not be written to its end");
}

// The file has its name when it is whole; a half one never looks like the export. What is no plain file (/dev/stdout, a
// pipe) is written to.
void export_to_file(const std::string& name, const Program& program, const std::string& command) {
    const bool replaces = !std::filesystem::exists(name) || std::filesystem::is_regular_file(name);
    const std::string part = replaces ? name + ".part" : name;
    try {
        std::ofstream file(part, std::ios::binary | std::ios::trunc);
        if (!file) usage_error("cannot write " + name);
        export_to(file, program, command);
        file.close();
        if (!file) throw Error("", "the export could not be written to its end");
        if (replaces) std::filesystem::rename(part, name);
    } catch (...) {
        std::error_code ignored;
        if (replaces) std::filesystem::remove(part, ignored);
        throw;
    }
}

void add_export(Program& program, Command& bulk) {
    auto* command =
        bulk.add_subcommand("export", "one line a row: where it stands and why; for standard output or a file");
    auto given = of_operation(command);
    add_filters(command, given);
    command->add_option("--state", given->states, "only rows in these states")->delimiter(',');
    command->add_option("--mode", given->mode, "report, or data: the rows alone as they came")
        ->check(IsMember{{"report", "data"}});
    command->add_option("--format", given->format, "csv or json")->check(IsMember{{"csv", "json"}});
    command->add_option("--output", given->file, "a file; default: standard output");
    command->add_flag("--raw", given->flag, "leave cells that a spreadsheet takes for formulas as they are");
    program.run(command, [&program, given](pqxx::connection& connection) {
        const auto rows = listed(given->rows), types = listed(given->types), steps = listed(given->steps),
                   states = listed(given->states);
        const auto made = sql::run_alone(
            connection,
            "SELECT pawl_bulk.export_command($1::uuid, $2, $3, states => $4::text[], error_types => $5::text[], steps "
            "=> $6::text[], rows => $7::bigint[], neutralise => $8::boolean)",
            given->operation, given->mode, program.output.json ? "json" : given->format, sql::or_null(states),
            sql::or_null(types), sql::or_null(steps), sql::or_null(rows), given->flag ? "false" : "true");
        const std::string command = made[0][0].as<std::string>();
        if (given->file.empty())
            export_to(std::cout, program, command);
        else
            export_to_file(given->file, program, command);
        return fine;
    });
}

void add_retry(Program& program, Command& bulk) {
    auto* command = bulk.add_subcommand(
        "retry", "run failed rows again, each from the step where it failed; ends with 1 if there is none");
    auto given = of_operation(command);
    add_filters(command, given);
    program.run(command, [&program, given](pqxx::connection& connection) {
        const auto rows = listed(given->rows), types = listed(given->types), steps = listed(given->steps);
        const auto said =
            sql::run_alone(connection, "SELECT * FROM pawl_bulk.retry($1::uuid, $2::bigint[], $3::text[], $4::text[])",
                           given->operation, sql::or_null(rows), sql::or_null(types), sql::or_null(steps));
        const auto value = as_json(said)[0];
        print(program.output, value,
              value.at("submitted").dump() + " rows run again, " + std::to_string(value.at("skipped").size()) +
                  " are left out");
        return value.at("submitted") > 0 ? fine : findings;
    });
}

void add_signal(Program& program, Command& bulk) {
    auto* command = bulk.add_subcommand(
        "signal", "complete the step that waits for a key, or fail it; ends with 1 where that changed nothing");
    auto given = of_operation(command);
    command->add_option("key", given->key, "the signal's key")->required();
    command->add_flag("--fail", given->flag, "the row fails");
    command->add_option("--message", given->message, "why");
    program.run(command, [&program, given](pqxx::connection& connection) {
        const auto said = sql::run_alone(connection, "SELECT pawl_bulk.signal($1::uuid, $2, $3, $4) AS answer",
                                         given->operation, given->key, given->flag ? "fail" : "complete",
                                         given->message.empty() ? nullptr : given->message.c_str());
        const auto answer = said[0][0].as<std::string>();
        print(program.output, as_json(said)[0],
              answer == "early" ? "early: no row waits for this key yet; it is kept for the one that will" : answer);
        return answer == "applied" || answer == "early" ? fine : findings;
    });
}

// pause, resume, cancel: functions that say whether they changed anything.
void add_switch(Program& program, Command& bulk, const std::string& name, const std::string& meaning,
                const std::string& done) {
    auto* command = bulk.add_subcommand(name, meaning);
    program.run(command, [&program, name, done, given = of_operation(command)](pqxx::connection& connection) {
        const bool changed =
            sql::run_alone(connection, "SELECT pawl_bulk." + name + "($1::uuid)", given->operation)[0][0].as<bool>();
        print(program.output, {{"changed", changed}},
              changed ? "operation " + given->operation + " " + done : "nothing to do: it is so already");
        return changed ? fine : findings;
    });
}

}  // namespace

void add_bulk_commands(Program& program) {
    auto* bulk = program.app.add_subcommand("bulk", "bulk operations: files of rows through steps");
    bulk->require_subcommand(1);
    add_bulk_submit(program, *bulk);
    add_define(program, *bulk);
    add_status(program, *bulk);
    add_watch(program, *bulk);
    add_list(program, *bulk);
    add_errors(program, *bulk);
    add_export(program, *bulk);
    add_retry(program, *bulk);
    add_signal(program, *bulk);
    add_switch(program, *bulk, "cancel", "cancel an operation with all that is active of it", "is cancelled");
    add_switch(program, *bulk, "pause", "begin nothing more of an operation until it is resumed", "is paused");
    add_switch(program, *bulk, "resume", "let a paused operation go on", "goes on");
}

}  // namespace pawl::cli
