// May throw. pawl saga: what is done to flows. Each command is one function of the pack, and says in which state the
// flow is then.
#include "saga_commands.hpp"

#include <memory>

#include <pawl/flows.hpp>

#include "sql.hpp"

namespace pawl::cli {
namespace {

struct Arguments {
    FlowRequest request;
    std::string flow, task, reason, inputs = "{}", file;
    bool follow = false, done = false;
};

using Shared = std::shared_ptr<Arguments>;

Shared of_flow(Command* command, bool with_reason = false) {
    auto given = std::make_shared<Arguments>();
    command->add_option("flow", given->flow, "its id")->required();
    if (with_reason) command->add_option("--reason", given->reason, "goes into the log");
    return given;
}

bool is_uuid(const std::string& text) {
    return text.size() == 36 && text.find_first_not_of("0123456789abcdefABCDEF-") == std::string::npos;
}

std::string state_of(pqxx::connection& connection, const std::string& flow) {
    const auto found =
        sql::run_alone(connection, "SELECT f.state FROM pawl_saga.flows f WHERE f.flow_uuid = $1::uuid", flow);
    if (found.empty()) throw Error("P0002", "there is no flow " + flow);
    return found[0][0].as<std::string>();
}

int say_state(const Program& program, const std::string& flow, const std::string& before, const std::string& now,
              const std::string& what) {
    const bool changed = before != now;
    print(program.output, {{"flow", flow}, {"before", before}, {"state", now}},
          changed ? "flow " + flow + " " + what + ": it was " + before + " and is " + now
                  : "nothing to do: flow " + flow + " is " + now);
    return changed ? fine : findings;
}

void add_define(Program& program, Command& saga) {
    auto given = std::make_shared<Arguments>();
    auto* command =
        saga.add_subcommand("define", "define a version of a flow from JSON and print its name and version");
    command->add_option("file", given->file, "as pawl_saga.define takes it; - is standard input")->required();
    program.run(command, [&program, given](pqxx::connection& connection) {
        pqxx::work transaction(connection);
        const std::string id = define_flow(transaction, json_of(given->file, read_file(given->file)));
        sql::commit(transaction);
        const auto made = sql::run_alone(connection,
                                         "SELECT d.definition_uuid AS definition, d.name, d.version,"
                                         " (SELECT count(*) FROM pawl_saga.nodes n WHERE n.definition_uuid = "
                                         "d.definition_uuid AND n.kind = 'task') AS tasks"
                                         " FROM pawl_saga.definitions d WHERE d.definition_uuid = $1::uuid",
                                         id);
        print(program.output, as_json(made)[0],
              made[0]["name"].as<std::string>() + " version " + made[0]["version"].as<std::string>() + ": " +
                  made[0]["tasks"].as<std::string>() + " tasks");
        return fine;
    });
}

void add_run(Program& program, Command& saga) {
    auto given = std::make_shared<Arguments>();
    auto* command =
        saga.add_subcommand("run", "begin a flow and print its id; or run one again that has ended or is suspended");
    command->add_option("flow", given->request.name, "the name of a definition, or the id of a flow")->required();
    command->add_option("--inputs", given->inputs, "a JSON object: values by name");
    command->add_option("--version", given->request.version, "of the definition; default: the newest");
    command->add_flag("--defer-reverts", given->request.defer_reverts,
                      "a REVERT asks the controllers outside, and reverts everything in the end");
    command->add_flag("--never-resolve", given->request.never_resolve, "a failure is not decided, it ends the flow");
    command->add_flag("--follow", given->follow, "wait until it rests");
    program.run(command, [&program, given](pqxx::connection& connection) {
        std::string flow = given->request.name;
        int said = fine;
        pqxx::work transaction(connection);
        if (is_uuid(flow)) {
            const auto before = flow_status(transaction, flow);
            const std::string now = run_flow(transaction, flow);
            sql::commit(transaction);
            if (!given->follow || !program.output.json)
                said = say_state(program, flow, before ? before->state : "", now, "runs");
        } else {
            given->request.inputs = json_of("--inputs", given->inputs);
            flow = start_flow(transaction, given->request);
            sql::commit(transaction);
            if (!given->follow || !program.output.json) print(program.output, {{"flow", flow}}, flow);
        }
        return given->follow ? follow_flow(program, connection, flow) : said;
    });
}

// suspend, resume: functions that return the state.
void add_switch(Program& program, Command& saga, const std::string& name, const std::string& meaning,
                const std::string& what) {
    auto* command = saga.add_subcommand(name, meaning);
    program.run(command, [&program, name, what, given = of_flow(command)](pqxx::connection& connection) {
        const std::string before = state_of(connection, given->flow);
        const auto now = sql::run_alone(connection, "SELECT pawl_saga." + name + "($1::uuid)", given->flow);
        return say_state(program, given->flow, before, now[0][0].as<std::string>(), what);
    });
}

void add_signal(Program& program, Command& saga) {
    auto* command = saga.add_subcommand(
        "signal",
        "tell a flow something: one task that waits for it succeeds; where none does yet, the next one that will");
    auto given = of_flow(command);
    command->add_option("signal", given->task, "its name")->required();
    command->add_option("--payload", given->inputs, "JSON: the result of the task");
    given->inputs = "null";
    program.run(command, [&program, given](pqxx::connection& connection) {
        pqxx::work transaction(connection);
        const std::string signal =
            signal_flow(transaction, given->flow, given->task, json_of("--payload", given->inputs));
        const auto taken = sql::run(transaction,
                                    "SELECT t.name FROM pawl_saga.signals s JOIN pawl_saga.tasks t ON t.flow_uuid = "
                                    "s.flow_uuid AND t.node = s.taken_by"
                                    " WHERE s.flow_uuid = $1::uuid AND s.signal_uuid = $2::uuid",
                                    given->flow, signal);
        sql::commit(transaction);
        const std::string by = taken.empty() ? "" : taken[0][0].as<std::string>();
        print(program.output,
              {{"signal", signal}, {"taken_by", by.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(by)}},
              by.empty() ? "no task waits for it yet: it is kept for the first that will"
                         : "task " + by + " waited for it");
        return fine;
    });
}

void add_revert(Program& program, Command& saga) {
    auto* command = saga.add_subcommand(
        "revert", "have everything undone that a flow has done; or deal with one task whose revert failed");
    auto given = of_flow(command, true);
    command->add_option("task", given->task, "one whose revert failed: it is tried again, and the flow goes on");
    command->add_flag("--done", given->done, "it was undone by hand: the flow goes on without trying; needs a reason");
    program.run(command, [&program, given](pqxx::connection& connection) {
        const char* reason = given->reason.empty() ? nullptr : given->reason.c_str();
        if (given->done && given->task.empty()) usage_error("--done", "is a task's: name one");
        const std::string before = state_of(connection, given->flow);
        std::string now, what = "has everything undone";
        if (given->task.empty())
            now = sql::run_alone(connection, "SELECT pawl_saga.revert($1::uuid, $2)", given->flow, reason)[0][0]
                      .as<std::string>();
        else if (!given->done) {
            now = sql::run_alone(connection, "SELECT pawl_saga.retry_revert($1::uuid, $2, $3)", given->flow,
                                 given->task, reason)[0][0]
                      .as<std::string>();
            what = "tries the revert of " + given->task + " again";
        } else {
            pqxx::work transaction(connection);
            sql::run(transaction, "SELECT pawl_saga.resolve($1::uuid, $2, $3)", given->flow, given->task, reason);
            now = run_flow(transaction, given->flow);
            sql::commit(transaction);
            what = "takes " + given->task + " for undone and goes on";
        }
        print(program.output, {{"flow", given->flow}, {"before", before}, {"state", now}},
              "flow " + given->flow + " " + what + ": it was " + before + " and is " + now);
        return fine;
    });
}

void add_reset(Program& program, Command& saga) {
    auto* command = saga.add_subcommand(
        "reset", "take a flow that is SUCCESS or REVERTED back to PENDING; what was done is not undone by it");
    program.run(command, [&program, given = of_flow(command, true)](pqxx::connection& connection) {
        const std::string before = state_of(connection, given->flow);
        const auto now = sql::run_alone(connection, "SELECT pawl_saga.reset($1::uuid, $2)", given->flow,
                                        given->reason.empty() ? nullptr : given->reason.c_str());
        return say_state(program, given->flow, before, now[0][0].as<std::string>(), "is as new");
    });
}

}  // namespace

void add_saga_commands(Program& program) {
    auto* saga =
        program.app.add_subcommand("saga", "flows of tasks that are undone in reverse when one fails, and their jobs");
    saga->require_subcommand(1);
    add_define(program, *saga);
    add_run(program, *saga);
    add_saga_views(program, *saga);
    add_switch(program, *saga, "suspend",
               "begin nothing more of a flow until it is resumed; what is under way finishes", "is told to rest");
    add_switch(program, *saga, "resume", "let a suspended flow go on; take up one that seems to hang", "goes on");
    add_signal(program, *saga);
    add_revert(program, *saga);
    add_reset(program, *saga);
    add_saga_jobs(program, *saga);
}

}  // namespace pawl::cli
