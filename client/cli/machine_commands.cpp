// May throw. Commands of the kernel: machines, logs, checks.
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

struct Arguments {
    std::string first, second, file;
    std::vector<std::string> rest;
};

using Shared = std::shared_ptr<Arguments>;

// A query whose rows are printed.
int show(const Program& program, const sql::Rows& rows, bool rows_are_findings = false) {
    print(program.output, rows);
    return rows_are_findings && !rows.empty() ? findings : fine;
}

void add_define(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("define", "store a diagram as the next version of a machine");
    command->add_option("machine", given->first, "its name")->required();
    command->add_option("file", given->file, "a Mermaid stateDiagram-v2; - is standard input")->required();
    program.run(command, [&program, given](pqxx::connection& connection) {
        const auto made =
            sql::run_alone(connection, "SELECT pawl.define($1, $2) AS version", given->first, read_file(given->file));
        print(program.output, as_json(made)[0], given->first + " version " + made[0][0].as<std::string>());
        return fine;
    });
}

void add_check(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command =
        program.app.add_subcommand("check", "say what is wrong with a diagram; ends with 1 if it has errors");
    command->add_option("file", given->file, "a Mermaid stateDiagram-v2; - is standard input")->required();
    program.run(command, [&program, given](pqxx::connection& connection) {
        const auto found = sql::run_alone(connection, "SELECT * FROM pawl.check($1)", read_file(given->file));
        print(program.output, found);
        for (const auto& row : found)
            if (row["severity"].as<std::string>() == "error") return findings;
        return fine;
    });
}

void add_diagram(Program& program) {
    auto given = std::make_shared<Arguments>();
    given->second = "mermaid";
    auto* command = program.app.add_subcommand("diagram", "print a machine");
    command->add_option("machine", given->first, "its name")->required();
    command->add_option("--format", given->second, "mermaid or dot");
    program.run(command, [&program, given](pqxx::connection& connection) {
        const auto drawn =
            sql::run_alone(connection, "SELECT pawl.diagram($1, format => $2) AS diagram", given->first, given->second);
        std::string text = drawn[0][0].as<std::string>();
        if (text.ends_with('\n')) text.pop_back();  // print ends the line
        print(program.output, as_json(drawn)[0], text);
        return fine;
    });
}

// Of a table's row, of a task, or of one of its steps.
constexpr const char* history_statement =
    "SELECT sort_key, from_state, to_state, event, processor, actor, created_at, metadata FROM "
    "pawl.history($1::regclass, ";
constexpr const char* step_history_statement =
    "SELECT h.sort_key, h.from_state, h.to_state, h.event, h.processor, h.actor, h.created_at, h.metadata"
    "  FROM pawl_dag.steps s CROSS JOIN LATERAL pawl.history('pawl_dag.steps', row(s.task_uuid, s.step_uuid)) h"
    " WHERE s.task_uuid = $1::uuid AND (s.name = $2 OR s.step_uuid::text = $2) ORDER BY h.sort_key";

constexpr const char* task_audit_statement =
    "SELECT r.name AS step, r.success, r.recorded_at, r.execution_time_ms, r.worker, r.actor, r.correlation_id, "
    "r.transition_id"
    "  FROM pawl_dag.step_results r WHERE r.task_uuid = $1::uuid AND ($2 = '' OR r.name = $2 OR r.step_uuid::text = $2)"
    " ORDER BY r.recorded_at, r.transition_id";

// Of a row: a key of several columns is an array of texts, which the server reads by their types.
sql::Rows history_of_row(pqxx::connection& connection, const Arguments& given) {
    const std::string statement = history_statement;
    if (given.rest.empty())
        return sql::run_alone(connection, statement + "$2::text)", given.file.empty() ? "pawl_dag.tasks" : given.file,
                              given.first);
    std::vector<std::string> key{given.first};
    key.insert(key.end(), given.rest.begin(), given.rest.end());
    return sql::run_alone(connection, statement + "$2::text[])", given.file, sql::text_array(key));
}

void add_history(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("history", "what a task, a step or any row went through");
    command->add_option("key", given->first, "a task's id; with --table the row's key")->required();
    command->add_option("step", given->rest,
                        "a step of the task, by its name or id; with --table the other columns of the key");
    command->add_option("--table", given->file, "an enforced table; default: tasks");
    program.run(command, [&program, given](pqxx::connection& connection) {
        const bool of_step = given->file.empty() && !given->rest.empty();
        if (of_step && given->rest.size() > 1) usage_error("step", "is one step");
        const auto rows = of_step ? sql::run_alone(connection, step_history_statement, given->first, given->rest[0])
                                  : history_of_row(connection, *given);
        if (rows.empty())
            throw Error("P0002", "no log entry exists for " + given->first +
                                     (of_step ? ", step \"" + given->rest[0] + "\"" : ""));
        return show(program, rows);
    });
}

void add_audit(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("audit", "the results of a task's steps, or of any audited row");
    command->add_option("key", given->first, "a task's id; with --table the row's key")->required();
    command->add_option("step", given->second, "a step of the task, by its name or id");
    command->add_option("--table", given->file, "an audited table; default: steps of tasks");
    program.run(command, [&program, given](pqxx::connection& connection) {
        return show(program, given->file.empty()
                                 ? sql::run_alone(connection, task_audit_statement, given->first, given->second)
                                 : sql::run_alone(connection, "SELECT * FROM pawl.audit_of($1::regclass, $2::text)",
                                                  given->file, given->first));
    });
}

void add_verify(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand(
        "verify", "look for rows and logs that are not as they must be; ends with 1 if there are any");
    command->add_option("--table", given->file, "only this table");
    program.run(command, [&program, given](pqxx::connection& connection) {
        return show(
            program,
            sql::run_alone(connection,
                           "SELECT relation::text, state_column, key, problem, detail FROM pawl.verify($1::regclass)",
                           given->file.empty() ? nullptr : given->file.c_str()),
            true);
    });
}

}  // namespace

void add_machine_commands(Program& program) {
    add_define(program);
    add_check(program);
    add_diagram(program);
    add_history(program);
    add_audit(program);
    add_verify(program);
    auto* health = program.app.add_subcommand(
        "health", "what is attached, and whether it still works; ends with 1 on errors and warnings");
    program.run(health, [&program](pqxx::connection& connection) {
        const auto found = sql::run_alone(
            connection, "SELECT relation::text, state_column, check_name, status, detail, hint FROM pawl.health()");
        print(program.output, found);
        for (const auto& row : found)
            if (row["status"].as<std::string>() == "error" || row["status"].as<std::string>() == "warning")
                return findings;
        return fine;
    });
}

}  // namespace pawl::cli
