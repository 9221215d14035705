// May throw. Commands of the kernel: machines, logs, checks.
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

struct Arguments {
    std::string first, second, file;
};

using Shared = std::shared_ptr<Arguments>;

// A query whose rows are printed.
int show(const Program& program, const pqxx::result& rows, bool rows_are_findings = false) {
    print(program.output, rows);
    return rows_are_findings && !rows.empty() ? findings : fine;
}

void add_define(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("define", "store a diagram as the next version of a machine");
    command->add_option("machine", given->first, "its name")->required();
    command->add_option("file", given->file, "a Mermaid stateDiagram-v2; - is standard input")->required();
    program.run(command, [&program, given](pqxx::connection& connection) {
        const auto made = sql::run_alone(connection, "SELECT pawl.define($1, $2) AS version", given->first, read_file(given->file));
        print(program.output, as_json(made)[0], given->first + " version " + made[0][0].as<std::string>());
        return fine;
    });
}

void add_check(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("check", "say what is wrong with a diagram; ends with 1 if it has errors");
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
        const auto drawn = sql::run_alone(connection, "SELECT pawl.diagram($1, format => $2) AS diagram", given->first, given->second);
        print(program.output, as_json(drawn)[0], drawn[0][0].as<std::string>());
        return fine;
    });
}

// history and audit are asked alike: of a table's row, or of a task.
void add_record(Program& program, const char* name, const char* meaning, const char* statement) {
    auto given = std::make_shared<Arguments>();
    given->second = "pawl_dag.tasks";
    auto* command = program.app.add_subcommand(name, meaning);
    command->add_option("key", given->first, "the row's key; a task's id")->required();
    command->add_option("--table", given->second, "the table, default pawl_dag.tasks");
    program.run(command, [&program, given, statement](pqxx::connection& connection) {
        return show(program, sql::run_alone(connection, statement, given->second, given->first));
    });
}

}  // namespace

void add_machine_commands(Program& program) {
    add_define(program);
    add_check(program);
    add_diagram(program);
    add_record(program, "history", "what a row went through",
               "SELECT sort_key, from_state, to_state, event, processor, actor, created_at, metadata FROM pawl.history($1::regclass, $2::text)");
    add_record(program, "audit", "the audited results of a row", "SELECT * FROM pawl.audit_of($1::regclass, $2::text)");
    auto* verify = program.app.add_subcommand("verify", "look for rows and logs that are not as they must be; ends with 1 if there are any");
    program.run(verify, [&program](pqxx::connection& connection) {
        return show(program, sql::run_alone(connection, "SELECT relation::text, state_column, key, problem, detail FROM pawl.verify()"), true);
    });
    auto* health = program.app.add_subcommand("health", "what is attached, and whether it still works; ends with 1 on errors and warnings");
    program.run(health, [&program](pqxx::connection& connection) {
        const auto found = sql::run_alone(connection, "SELECT relation::text, state_column, check_name, status, detail, hint FROM pawl.health()");
        print(program.output, found);
        for (const auto& row : found)
            if (row["status"].as<std::string>() == "error" || row["status"].as<std::string>() == "warning") return findings;
        return fine;
    });
}

}  // namespace pawl::cli
