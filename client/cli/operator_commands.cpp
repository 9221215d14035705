// May throw. What operators do to tasks, each in one transaction: the task first, then its steps, as the orchestrator locks them.
#include <memory>

#include "commands.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

struct Arguments {
    std::string task, step, reason, result;
};

using Shared = std::shared_ptr<Arguments>;

Shared arguments_of(CLI::App* command, bool with_step) {
    auto given = std::make_shared<Arguments>();
    command->add_option("task", given->task, "its id")->required();
    if (with_step) command->add_option("step", given->step, "one step, by its name");
    command->add_option("--reason", given->reason, "goes into the log");
    return given;
}

void begin(pqxx::work& transaction, const Arguments& given, const std::string& event) {
    const nlohmann::json metadata = given.reason.empty() ? nlohmann::json::object() : nlohmann::json{{"reason", given.reason}};
    sql::run(transaction, "SELECT pawl.set_context(event => $1, metadata => $2::jsonb)", event, metadata.dump());
    if (sql::run(transaction, "SELECT FROM pawl_dag.tasks t WHERE t.task_uuid = $1::uuid FOR NO KEY UPDATE", given.task).empty())
        throw Error("PW008", "unknown task " + given.task);
}

int end(const Program& program, pqxx::work& transaction, std::size_t moved, const std::string& what) {
    sql::commit(transaction);
    print(program.output, {{"moved", moved}}, std::to_string(moved) + " " + what);
    return moved > 0 ? fine : findings;
}

int retry(const Program& program, pqxx::connection& connection, const Arguments& given) {
    pqxx::work transaction(connection);
    begin(transaction, given, "ResetForRetry");
    const auto moved = sql::run(transaction,
                                "UPDATE pawl_dag.steps s SET state = 'pending', attempts = 0, permanent = false, error = NULL"
                                " WHERE s.task_uuid = $1::uuid AND s.state = 'error' AND ($2 = '' OR s.name = $2) RETURNING s.step_uuid",
                                given.task, given.step);
    return end(program, transaction, moved.size(), "steps begin again");
}

int close(const Program& program, pqxx::connection& connection, const Arguments& given, const std::string& event, const std::string& state) {
    pqxx::work transaction(connection);
    begin(transaction, given, event);
    const auto task = sql::run(transaction,
                               "UPDATE pawl_dag.tasks t SET state = $2 WHERE t.task_uuid = $1::uuid"
                               " AND t.state NOT IN ('complete', 'error', 'cancelled', 'resolved_manually') RETURNING t.task_uuid",
                               given.task, state);
    const auto steps = sql::run(transaction,
                                "UPDATE pawl_dag.steps s SET state = $2 WHERE s.task_uuid = $1::uuid AND $3::integer > 0"
                                " AND s.state NOT IN ('complete', 'cancelled', 'resolved_manually') RETURNING s.step_uuid",
                                given.task, state, static_cast<int>(task.size()));
    return end(program, transaction, task.size(), "task and " + std::to_string(steps.size()) + " of its steps are " + state);
}

int resolve(const Program& program, pqxx::connection& connection, const Arguments& given) {
    if (given.step.empty()) return close(program, connection, given, "ResolveManually", "resolved_manually");
    pqxx::work transaction(connection);
    const bool with_result = !given.result.empty();
    begin(transaction, given, with_result ? "CompleteManually" : "ResolveManually");
    const auto moved = sql::run(transaction,
                                "UPDATE pawl_dag.steps s SET state = $3, result = coalesce($4::jsonb, s.result)"
                                " WHERE s.task_uuid = $1::uuid AND s.name = $2 AND s.state NOT IN ('complete', 'cancelled', 'resolved_manually')"
                                " RETURNING s.step_uuid",
                                given.task, given.step, with_result ? "complete" : "resolved_manually", with_result ? given.result.c_str() : nullptr);
    return end(program, transaction, moved.size(), "steps resolved");
}

}  // namespace

void add_operator_commands(Program& program) {
    auto* retry_command = program.app.add_subcommand("retry", "give failed steps of a task their attempts back; what is finished stays");
    program.run(retry_command, [&program, given = arguments_of(retry_command, true)](pqxx::connection& connection) {
        return retry(program, connection, *given);
    });
    auto* cancel_command = program.app.add_subcommand("cancel", "cancel a task with all steps that are open");
    program.run(cancel_command, [&program, given = arguments_of(cancel_command, false)](pqxx::connection& connection) {
        return close(program, connection, *given, "Cancel", "cancelled");
    });
    auto* resolve_command = program.app.add_subcommand("resolve", "close a task or a step by hand");
    auto given = arguments_of(resolve_command, true);
    resolve_command->add_option("--result", given->result, "the step's result, as JSON: the step is then complete");
    program.run(resolve_command, [&program, given](pqxx::connection& connection) { return resolve(program, connection, *given); });
}

}  // namespace pawl::cli
