// May throw. The commands of `pawl`. Each adds itself to the program and sets what to run.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <pawl/connection.hpp>

#include "command_line.hpp"
#include "output.hpp"
#include "problems.hpp"
#include "terminal_text.hpp"

namespace pawl::cli {

// With --exit-code, `changes` is 2 and everything that is neither `fine` nor `changes` is 1.
enum ExitCode { fine = 0, findings = 1, usage = 2, rejected = 3, no_connection = 4, changes = 5 };

struct Program {
    Command app;
    Output output{};
    ConnectionSettings connection{.application_name = "pawl"};
    std::function<int()> chosen{};

    // Makes `body` run, with a connection, when the command is given. It returns the exit code.
    void run(Command* command, std::function<int(pqxx::connection&)> body);

    // The same for a command that may need no connection, and else makes it by open().
    void run_alone(Command* command, std::function<int()> body);
    std::unique_ptr<pqxx::connection> open() const;

    void check_target() const;  // throws Error if --database has a password
};

void add_lifecycle_commands(Program& program);  // plan, apply, sql, pull
void add_diff_commands(Program& program);       // diff, watch
void add_row_commands(Program& program);        // enforce, upgrade, release, fire, available
void add_machine_commands(Program& program);    // define, check, diagram, history, audit, verify, health
void add_task_commands(Program& program);       // start, list, show, follow, export, template, import
void add_operator_commands(Program& program);   // retry, cancel, resolve, give-up
void add_act_commands(Program& program);        // act
void add_bulk_commands(Program& program);       // bulk submit, status, errors, export, retry, ...
void add_saga_commands(Program& program);       // saga define, run, show, follow, revert, jobs, ...
void add_move_commands(Program& program);       // databases, placements, move
void add_database_commands(Program& program);   // databases

// Prints lines while a command works; nothing with --json. `program` must outlive it.
std::function<void(const std::string&)> say_to(const Program& program);

// The whole of a file; - is standard input.
std::string read_file(const std::string& name);

}  // namespace pawl::cli
