// May throw. What operators do to tasks and steps: each is one function of the pack, which locks, checks and logs.
#include <memory>

#include "commands.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

struct Arguments {
    std::string task, step, reason, result, descendants = "cancel";
};

using Shared = std::shared_ptr<Arguments>;

Shared arguments_of(Command* command, bool with_step) {
    auto given = std::make_shared<Arguments>();
    command->add_option("task", given->task, "its id")->required();
    if (with_step) command->add_option("step", given->step, "one step, by its name or id");
    command->add_option("--reason", given->reason, "goes into the log");
    return given;
}

const char* reason_of(const Arguments& given) {
    return given.reason.empty() ? nullptr : given.reason.c_str();
}

std::string step_of(pqxx::connection& connection, const Arguments& given) {
    const auto found = sql::run_alone(connection,
                                      "SELECT s.step_uuid FROM pawl_dag.steps s WHERE s.task_uuid = $1::uuid AND "
                                      "(s.name = $2 OR s.step_uuid::text = $2)",
                                      given.task, given.step);
    if (found.empty()) throw Error("P0002", "there is no step \"" + given.step + "\" in task " + given.task);
    return found[0][0].as<std::string>();
}

// What a function says: how many it moved, or whether it moved one.
int end(const Program& program, const sql::Rows& said, const std::string& what) {
    const int moved = said[0][0].as<int>();
    print(program.output, {{"moved", moved}}, moved > 0 ? what : "nothing to do: it is so already");
    return moved > 0 ? fine : findings;
}

int of_task(const Program& program, pqxx::connection& connection, const Arguments& given, const std::string& function,
            const std::string& what) {
    return end(program,
               sql::run_alone(connection, "SELECT pawl_dag." + function + "($1::uuid, $2::text)::integer", given.task,
                              reason_of(given)),
               "task " + given.task + " " + what);
}

int of_step(const Program& program, pqxx::connection& connection, const Arguments& given, const std::string& function,
            const std::string& what) {
    const std::string step = step_of(connection, given);
    return end(program,
               sql::run_alone(connection, "SELECT pawl_dag." + function + "($1::uuid, $2::uuid, $3::text)::integer",
                              given.task, step, reason_of(given)),
               "step " + given.step + " " + what);
}

void add_retry(Program& program) {
    auto* command = program.app.add_subcommand(
        "retry", "go on from the failed steps of a task, or from one of them; what is finished stays");
    program.run(command, [&program, given = arguments_of(command, true)](pqxx::connection& connection) {
        return given->step.empty() ? of_task(program, connection, *given, "retry_task", "goes on")
                                   : of_step(program, connection, *given, "reset_step", "has its attempts again");
    });
}

void add_cancel(Program& program) {
    auto* command = program.app.add_subcommand(
        "cancel", "cancel a task with all steps that are open, or a step with those behind it");
    auto given = arguments_of(command, true);
    command
        ->add_option("--descendants", given->descendants,
                     "the steps behind the step: cancel them (default), or reject the command if there are any")
        ->check(IsMember{{"cancel", "reject"}});
    program.run(command, [&program, given](pqxx::connection& connection) {
        if (given->step.empty()) return of_task(program, connection, *given, "cancel_task", "is cancelled");
        const std::string step = step_of(connection, *given);
        return end(program,
                   sql::run_alone(connection, "SELECT pawl_dag.cancel_step($1::uuid, $2::uuid, $3::text, $4)::integer",
                                  given->task, step, reason_of(*given), given->descendants),
                   "step " + given->step + " and what waits for it are cancelled");
    });
}

void add_resolve(Program& program) {
    auto* command = program.app.add_subcommand("resolve", "close a task or a step that was dealt with otherwise");
    auto given = arguments_of(command, true);
    command->add_option("--result", given->result,
                        "the step's result, as JSON: the step is then complete; needs a reason");
    program.run(command, [&program, given](pqxx::connection& connection) {
        if (given->step.empty() && !given->result.empty()) usage_error("--result", "is a step's: name one");
        if (given->step.empty()) return of_task(program, connection, *given, "resolve_task", "is closed");
        if (given->result.empty())
            return of_step(program, connection, *given, "resolve_step", "is resolved, without a result");
        const std::string step = step_of(connection, *given);
        const std::string result = json_of("--result", given->result).dump();
        return end(
            program,
            sql::run_alone(connection,
                           "SELECT pawl_dag.complete_step_manually($1::uuid, $2::uuid, $3::jsonb, $4::text)::integer",
                           given->task, step, result, reason_of(*given)),
            "step " + given->step + " is complete");
    });
}

void add_give_up(Program& program) {
    auto* command = program.app.add_subcommand("give-up", "end a task that is blocked by failures in error");
    program.run(command, [&program, given = arguments_of(command, false)](pqxx::connection& connection) {
        return of_task(program, connection, *given, "give_up", "is given up");
    });
}

}  // namespace

void add_operator_commands(Program& program) {
    add_retry(program);
    add_cancel(program);
    add_resolve(program);
    add_give_up(program);
}

}  // namespace pawl::cli
