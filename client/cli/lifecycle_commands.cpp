// May throw. pawl plan, apply and sql: lifecycles as files.
#include <filesystem>
#include <iostream>
#include <memory>

#include <unistd.h>

#include "commands.hpp"
#include "lifecycle/apply.hpp"
#include "lifecycle/migration.hpp"
#include "lifecycle/pull.hpp"
#include "lifecycle/saved_plan.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

struct Arguments {
    std::string source, out, format = "psql", after;
    bool exit_code = false, yes = false;
    ApplyOptions apply{};
};

void show_plan(const Program& program, const Plan& plan) {
    std::string text = plan_text(plan, program.output.colours);
    text.pop_back();  // print ends the line
    print(program.output, plan_json(plan), text);
}

int run_plan(const Program& program, pqxx::connection& connection, const Arguments& given) {
    std::vector<Lifecycle> lifecycles = read_folder(given.source);
    const Plan plan = plan_alone(connection, lifecycles, given.apply.lock_timeout);
    show_plan(program, plan);
    if (!plan.problems.empty()) return findings;
    if (!given.out.empty()) save_plan(given.out, plan, lifecycles);
    return given.exit_code && !plan.steps.empty() ? changes : fine;
}

// A folder, or a plan that was saved: what it was shown as.
struct Source {
    std::vector<Lifecycle> lifecycles;
    std::string fingerprint;  // empty: of a folder
    std::vector<std::string> statements{};
};

Source read_source(const std::string& name) {
    if (name.ends_with(".json") && !std::filesystem::is_directory(name)) {
        SavedPlan saved = load_plan(name);
        return {std::move(saved.lifecycles), saved.fingerprint, std::move(saved.statements)};
    }
    return {read_folder(name), {}};
}

bool is_as_saved(const Source& source, const Plan& plan) {
    if (source.fingerprint.empty()) return true;
    std::vector<std::string> statements;
    for (const Step& step : plan.steps) statements.push_back(step.sql);
    return plan.fingerprint == source.fingerprint && statements == source.statements;
}

bool is_confirmed(const Plan& plan, const Arguments& given) {
    if (given.yes || given.apply.dry_run || !plan.removes()) return true;
    if (::isatty(STDIN_FILENO) != 1)
        usage_error("--yes", "is needed without a terminal: the plan takes something away");
    std::cerr << "Steps with - take something away. Apply? Only 'yes' is accepted: " << std::flush;
    std::string answer;
    return std::getline(std::cin, answer) && answer == "yes";
}

int changed_since(const Program& program) {
    print(program.output, {{"applied", false}, {"reason", "changed since"}},
          "pawl: the database has changed since the plan was made; nothing was changed\n"
          "hint: pawl plan shows what is to be done now");
    return findings;
}

int report(const Program& program, const Plan& plan, Applied applied) {
    switch (applied) {
        case Applied::changed_since:
            return changed_since(program);
        case Applied::nothing_to_do:
            print(program.output, {{"applied", true}, {"steps", 0}},
                  "Nothing to do: the database is as the files say.");
            return fine;
        case Applied::undone:
            print(program.output, {{"applied", false}, {"reason", "dry run"}, {"steps", plan.steps.size()}},
                  "All steps ran and were undone: nothing was changed.");
            return fine;
        default:
            print(program.output, {{"applied", true}, {"steps", plan.steps.size()}}, "Applied.");
            return fine;
    }
}

int carry_out(const Program& program, pqxx::connection& connection, Source& source, const Plan& plan,
              const Arguments& given) {
    std::size_t at = 0;
    try {
        const Applied applied = apply_plan(
            connection, source.lifecycles, plan, given.apply,
            [&](std::size_t step) {
                at = step + 1;
                if (!program.output.json) std::cout << at << ". " << one_line(plan.steps[step].title) << std::endl;
            },
            [] { std::cerr << "pawl: another session applies; waiting for its end" << std::endl; });
        return report(program, plan, applied);
    } catch (const ConnectionLost&) {
        std::cerr << "pawl: the connection was lost: all steps were applied or none; pawl plan says which\n";
        throw;
    } catch (const Error&) {
        if (at > 0)
            std::cerr << "pawl: stopped at step " << at << " of " << plan.steps.size() << "; nothing was changed\n";
        throw;
    }
}

int run_apply(const Program& program, pqxx::connection& connection, const Arguments& given) {
    Source source = read_source(given.source);
    const Plan plan = plan_alone(connection, source.lifecycles, given.apply.lock_timeout);
    if (plan.steps.empty() && plan.problems.empty()) return report(program, plan, Applied::nothing_to_do);
    if (!is_as_saved(source, plan)) return changed_since(program);
    if (!program.output.json || !plan.problems.empty()) show_plan(program, plan);
    if (!plan.problems.empty()) return findings;
    if (!is_confirmed(plan, given)) {
        std::cerr << "pawl: not confirmed; nothing was changed\n";
        return findings;
    }
    return carry_out(program, connection, source, plan, given);
}

int run_sql(const Program& program, pqxx::connection& connection, const Arguments& given) {
    std::vector<Lifecycle> lifecycles = read_folder(given.source);
    const Plan plan = plan_alone(connection, lifecycles, given.apply.lock_timeout);
    if (!plan.problems.empty()) {
        for (const std::string& problem : plan.problems) std::cerr << "pawl: " << without_controls(problem) << '\n';
        return findings;
    }
    const std::string text = migration_text(plan, given.format, given.after);
    print(program.output, {{"format", given.format}, {"sql", text}}, text.substr(0, text.size() - 1));
    return fine;
}

void add_plan(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("plan", "compare the lifecycles of a folder with a database");
    command->add_option("folder", given->source, "diagrams *.mmd with front matter")->required();
    command->add_option("--out", given->out, "save the plan in this file, for pawl apply");
    command->add_flag("--exit-code", given->exit_code, "end with 0: nothing to do, 2: changes, 1: any error");
    program.run(command,
                [&program, given](pqxx::connection& connection) { return run_plan(program, connection, *given); });
}

void add_apply(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("apply", "make a database as the lifecycles of a folder say");
    command->add_option("source", given->source, "a folder, or a plan that pawl plan --out saved (*.json)")->required();
    command->add_flag("--yes", given->yes, "do not ask before states, bindings, logs or rules are taken away");
    command->add_flag("--dry-run", given->apply.dry_run, "run all steps, with their locks, and undo them");
    command->add_option("--lock-timeout", given->apply.lock_timeout,
                        "longest wait of a step for a table, default 5s; 0: any time");
    program.run(command,
                [&program, given](pqxx::connection& connection) { return run_apply(program, connection, *given); });
}

void add_sql(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("sql", "print what pawl apply would run, as a migration");
    command->add_option("folder", given->source, "diagrams *.mmd with front matter")->required();
    command->add_option("--format", given->format, "psql (default), flyway, rails, django or alembic")
        ->check(IsMember{{"psql", "flyway", "rails", "django", "alembic"}});
    command->add_option("--after", given->after, "the migration before: app.name of django, a revision of alembic");
    program.run(command,
                [&program, given](pqxx::connection& connection) { return run_sql(program, connection, *given); });
}

void add_pull(Program& program) {
    auto folder = std::make_shared<std::string>();
    auto* command =
        program.app.add_subcommand("pull", "write the machines and bindings of a database as files of a folder");
    command->add_option("folder", *folder, "made if it is not there; a file that exists is not written over")
        ->required();
    program.run(command, [&program, folder](pqxx::connection& connection) {
        Json files = Json::array();
        std::string text;
        for (const std::string& file : pull(connection, *folder)) {
            files.push_back(file);
            text += (text.empty() ? "" : "\n") + file;
        }
        print(program.output, {{"files", files}}, text.empty() ? "no machines of users" : text);
        return fine;
    });
}

}  // namespace

void add_lifecycle_commands(Program& program) {
    add_plan(program);
    add_apply(program);
    add_sql(program);
    add_pull(program);
}

}  // namespace pawl::cli
