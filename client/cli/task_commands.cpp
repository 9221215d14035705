// May throw. Commands that start, import and look at workflows.
#include <chrono>
#include <iostream>
#include <memory>
#include <thread>

#include <pawl/placements.hpp>
#include <pawl/tasks.hpp>

#include "commands.hpp"
#include "sql.hpp"
#include "tree.hpp"
#include "wfformat.hpp"

namespace pawl::cli {
namespace {

constexpr const char* steps_statement =
    "SELECT s.name, s.state, to_jsonb(ARRAY(SELECT p.name FROM pawl_dag.edges e JOIN pawl_dag.steps p ON p.task_uuid = "
    "e.task_uuid AND p.step_uuid = e.parent_uuid"
    "   WHERE e.task_uuid = s.task_uuid AND e.child_uuid = s.step_uuid ORDER BY p.level, p.name)) AS parents,"
    "  s.attempts, s.max_attempts, s.error, s.result"
    " FROM pawl_dag.steps s WHERE s.task_uuid = $1::uuid ORDER BY s.level, s.name";

TaskStatus status_of(pqxx::connection& connection, const std::string& task) {
    pqxx::nontransaction transaction(connection);
    const auto found = task_status(transaction, task);
    if (!found) throw Error("P0002", "task " + task + " does not exist");
    return *found;
}

std::string note_of(const nlohmann::ordered_json& step) {
    std::string note;
    if (step.at("attempts") > 1)
        note = "attempt " + step.at("attempts").dump() + " of " + step.at("max_attempts").dump();
    if (step.at("error").is_object() && step.at("error").contains("message")) {
        const auto& message = step.at("error").at("message");
        note += (note.empty() ? "" : ", ") + (message.is_string() ? message.get<std::string>() : message.dump());
    } else if (step.at("error").is_string()) {
        note += (note.empty() ? "" : ", ") + std::string("an error too deep or too long to be read");
    }
    return note;
}

int show_task(const Program& program, pqxx::connection& connection, const std::string& task) {
    const TaskStatus status = status_of(connection, task);
    const auto steps = as_json(sql::run_alone(connection, steps_statement, task));
    std::vector<TreeStep> tree;
    for (const auto& step : steps)
        tree.push_back(
            {step.at("name"), step.at("state"), step.at("parents").get<std::vector<std::string>>(), note_of(step)});
    std::string text = status.name + "  " + coloured(status.state, status.state, program.output.colours) + "  " +
                       std::to_string(status.satisfied) + " of " + std::to_string(status.steps) + " steps\n" +
                       draw_tree(tree, program.output.colours);
    if (text.back() == '\n') text.pop_back();
    print(program.output, {{"task", status.task}, {"name", status.name}, {"state", status.state}, {"steps", steps}},
          text);
    return fine;
}

// Until the task ends; a line on a terminal is written over.
int follow_task(const Program& program, pqxx::connection& connection, const std::string& task) {
    TaskStatus status;
    for (std::string before, now;; std::this_thread::sleep_for(std::chrono::milliseconds(200))) {
        status = status_of(connection, task);
        now = progress_bar(status.satisfied, status.steps, 40) + "  " + status.state;
        if (!program.output.json && now != before)
            std::cout << (program.output.colours ? "\r\033[K" : "") << now << (program.output.colours ? "" : "\n")
                      << std::flush;
        before = now;
        // a failure that waits for a decision is where following ends, too
        if (status.ended() || status.state == "blocked_by_failures") break;
    }
    if (program.output.json)
        print(
            program.output,
            {{"task", status.task}, {"state", status.state}, {"steps", status.steps}, {"satisfied", status.satisfied}},
            "");
    else if (program.output.colours)
        std::cout << '\n';
    return status.state == "complete" || status.state == "resolved_manually" ? fine : findings;
}

void add_start(Program& program) {
    auto request = std::make_shared<TaskRequest>();
    auto context = std::make_shared<std::string>("{}");
    auto follow = std::make_shared<bool>(false);
    auto* command = program.app.add_subcommand("start", "start a task and print its id");
    command->add_option("template", request->name, "name of the template")->required();
    command->add_option("--context", *context, "a JSON object");
    command->add_option("--namespace", request->name_space, "default: default");
    command->add_option("--version", request->version, "default: the newest");
    command->add_option("--priority", request->priority, "higher is earlier");
    command->add_option("--key", request->identity_key, "identity key: a second task with the same key is rejected");
    command->add_flag("--follow", *follow, "wait until it ends");
    program.run(command, [&program, request, context, follow](pqxx::connection& connection) {
        request->context = json_of("--context", *context);
        const auto start = [&](pqxx::connection& database) {
            pqxx::work transaction(database);
            const std::string task = start_task(transaction, *request);
            sql::commit(transaction);
            if (!*follow || !program.output.json) print(program.output, {{"task", task}}, task);
            return *follow ? follow_task(program, database, task) : fine;
        };
        try {
            return start(connection);
        } catch (const error::placed_elsewhere&) {
        }
        Placements placements(program.connection);
        int code = fine;
        placements.run("dag", request->name_space, [&](pqxx::connection& there) { code = start(there); });
        return code;
    });
}

constexpr const char* list_statement =
    "SELECT t.task_uuid AS task, t.namespace, t.name, t.version, t.state, t.steps_satisfied AS done, t.steps_total AS "
    "steps, t.created_at, t.completed_at FROM pawl_dag.tasks t WHERE ($1 = '' OR t.state = $1) AND ($2 = '' OR t.name "
    "= $2) ORDER BY t.task_uuid DESC LIMIT $3::integer";

// The databases among which namespaces are divided; none if this is the only one.
std::vector<PlacedDatabase> databases_of(pqxx::connection& connection, Placements& placements) {
    const bool several = sql::run_alone(connection, "SELECT count(*) > 1 FROM pawl.database")[0][0].as<bool>();
    return several ? placements.databases() : std::vector<PlacedDatabase>();
}

// Lists of all databases as one, by time. A database that is down is named on standard error.
sql::Rows list_everywhere(pqxx::connection& connection, const std::vector<PlacedDatabase>& databases,
                          const std::string& state, const std::string& name, int limit) {
    nlohmann::json all = nlohmann::json::array();
    for (const PlacedDatabase& one : databases) {
        try {
            const auto there = connect(one.connection);
            const nlohmann::json tasks =
                sql::run_alone(*there,
                               std::string("SELECT coalesce(jsonb_agg(to_jsonb(l) || jsonb_build_object('database', "
                                           "$4::text)), '[]') FROM (") +
                                   list_statement + ") l",
                               state, name, limit, one.name)[0][0]
                    .json();
            all.insert(all.end(), tasks.begin(), tasks.end());
        } catch (const ConnectionLost& problem) {
            std::cerr << "pawl: database " << one_line(one.name) << ": " << message_of(problem) << '\n';
        }
    }
    return sql::run_alone(connection,
                          "SELECT x.task, x.database, x.namespace, x.name, x.version, x.state, x.done, x.steps, "
                          "x.created_at, x.completed_at FROM jsonb_to_recordset($1::jsonb) x(task uuid, database text, "
                          "namespace text, name text, version text, state text, done integer, steps integer, "
                          "created_at timestamptz, completed_at timestamptz) ORDER BY x.task DESC LIMIT $2::integer",
                          all.dump(), limit);
}

void add_list(Program& program) {
    auto state = std::make_shared<std::string>();
    auto name = std::make_shared<std::string>();
    auto limit = std::make_shared<int>(20);
    auto* command = program.app.add_subcommand("list", "tasks, the newest first");
    command->add_option("--state", *state, "only those in this state");
    command->add_option("--name", *name, "only those of this template");
    command->add_option("--limit", *limit, "at most so many, default 20")->check(Range{1, 100'000});
    program.run(command, [&program, state, name, limit](pqxx::connection& connection) {
        Placements placements(program.connection);
        const std::vector<PlacedDatabase> databases = databases_of(connection, placements);
        if (databases.empty()) {
            print(program.output, sql::run_alone(connection, list_statement, *state, *name, *limit));
            return fine;
        }
        print(program.output, list_everywhere(connection, databases, *state, *name, *limit));
        return fine;
    });
}

using TaskBody = int (*)(const Program&, pqxx::connection&, const std::string&);

// Whether this database has the task.
bool has_task(pqxx::connection& connection, const std::string& task) {
    return !sql::run_alone(connection, "SELECT FROM pawl_dag.tasks t WHERE t.task_uuid = $1::uuid", task).empty();
}

// Runs the body where the task is: here, or in another database, where it may have moved meanwhile.
int where_it_is(const Program& program, pqxx::connection& connection, const std::string& task, TaskBody body) {
    Placements placements(program.connection);
    if (has_task(connection, task) || databases_of(connection, placements).empty())
        return body(program, connection, task);
    std::string unreachable;
    for (const PlacedDatabase& one : placements.databases()) {
        try {
            const auto there = connect(one.connection);
            if (has_task(*there, task)) return body(program, *there, task);
        } catch (const ConnectionLost&) {
            unreachable += (unreachable.empty() ? "" : ", ") + one.name;
        }
    }
    throw Error("P0002", "task " + task + " does not exist" +
                             (unreachable.empty() ? "" : ", or is in a database that is down: " + unreachable));
}

void add_task(Program& program, const char* name, const char* meaning, TaskBody body) {
    auto task = std::make_shared<std::string>();
    auto* command = program.app.add_subcommand(name, meaning);
    command->add_option("task", *task, "its id")->required();
    program.run(command, [&program, task, body](pqxx::connection& connection) {
        return where_it_is(program, connection, *task, body);
    });
}

int export_task(const Program& program, pqxx::connection& connection, const std::string& task) {
    status_of(connection, task);
    const auto steps = as_json(sql::run_alone(connection, steps_statement, task));
    const std::string text = mermaid_of(nlohmann::json(steps));
    print(program.output, {{"task", task}, {"mermaid", text}}, text);
    return fine;
}

void add_import(Program& program) {
    auto options = std::make_shared<ImportOptions>();
    auto file = std::make_shared<std::string>();
    auto* command = program.app.add_subcommand("import", "define a template from a WfFormat file and print its id");
    command->add_option("file", *file, "WfFormat 1.4 or 1.5; - is standard input")->required();
    command->add_option("--name", options->name, "default: the workflow's own");
    command->add_option("--namespace", options->name_space, "default: default");
    command->add_option("--version", options->version, "default: 1.0.0");
    command->add_option("--handler", options->handler, "the handler of every step, default sleep");
    program.run(command, [&program, options, file](pqxx::connection& connection) {
        const nlohmann::json definition = import_wfformat(json_of(*file, read_file(*file)), *options);
        pqxx::work transaction(connection);
        const std::string id = define_template(transaction, definition);
        sql::commit(transaction);
        const auto steps = definition.at("steps").size();
        print(program.output,
              {{"template", id},
               {"name", definition.at("name")},
               {"steps", steps},
               {"recorded", definition.at("metadata")},
               {"critical_path_seconds", definition.at("metadata").at("critical_path_seconds")}},
              definition.at("name").get<std::string>() + ": " + std::to_string(steps) + " steps, template " + id);
        return fine;
    });
}

void add_template(Program& program) {
    auto file = std::make_shared<std::string>();
    auto* command = program.app.add_subcommand("template", "define a version of a workflow from JSON and print its id");
    command->add_option("file", *file, "as pawl_dag.define_template takes it; - is standard input")->required();
    program.run(command, [&program, file](pqxx::connection& connection) {
        const nlohmann::json definition = json_of(*file, read_file(*file));
        pqxx::work transaction(connection);
        const std::string id = define_template(transaction, definition);
        sql::commit(transaction);
        print(program.output, {{"template", id}}, id);
        return fine;
    });
}

}  // namespace

void add_task_commands(Program& program) {
    add_start(program);
    add_list(program);
    add_task(program, "show", "a task as a tree of its steps", show_task);
    add_task(program, "follow", "watch a task until it ends; ends with 1 unless it is complete", follow_task);
    add_task(program, "export", "a task as a Mermaid flowchart with its states", export_task);
    add_template(program);
    add_import(program);
}

}  // namespace pawl::cli
