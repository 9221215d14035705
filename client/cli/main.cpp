// pawl: machines and workflows from the command line.
#include <algorithm>
#include <iostream>

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <pawl/errors.hpp>

#include "commands.hpp"
#include "input_file.hpp"
#include "secrets.hpp"
#include "settings_table.hpp"
#include "wfformat.hpp"

namespace pawl::cli {

void Program::run(Command* command, std::function<int(pqxx::connection&)> body) {
    run_alone(command, [this, body = std::move(body)] { return body(*open()); });
}

void Program::run_alone(Command* command, std::function<int()> body) {
    command->callback([this, body = std::move(body)] { chosen = body; });
}

std::unique_ptr<pqxx::connection> Program::open() const {
    check_target();
    return connect(connection);
}

void Program::check_target() const {
    if (has_password(connection.target))
        throw Error("",
                    "every user of the machine can read a password in a flag: use PGPASSFILE, PGSERVICE or PGPASSWORD");
}

std::string read_file(const std::string& name) {
    constexpr std::size_t longest = 64 << 20;  // /dev/zero has no end
    InputFile file(name, "");
    std::string text;
    for (std::string_view piece = file.read(); !piece.empty(); piece = file.read()) {
        text += piece;
        if (text.size() > longest) throw Error("", name + " is longer than 64 MiB");
    }
    if (!file.broken().empty()) throw Error("", "cannot read " + name + ": " + file.broken());
    // libpq would send what is before it
    if (text.find('\0') != std::string::npos)
        throw Error("", (name == "-" ? "standard input" : name) + " has a NUL byte, which PostgreSQL cannot store");
    return text;
}

namespace {

std::string long_options(const CLI::App& command) {
    std::string options;
    for (const CLI::Option* option : command.get_options())
        for (const std::string& name : option->get_lnames()) options += " --" + name;
    return options;
}

// What may stand behind a command, and the same for each command below it: `path` is how the command is called, a blank
// before each word.
void add_cases(const CLI::App& command, const std::string& path, std::string& known, std::string& cases) {
    std::string words;
    for (const CLI::App* below : command.get_subcommands({})) {
        const std::string name = path + " " + below->get_name();
        words += " " + below->get_name();
        known += (known.empty() ? "'" : "|'") + name + "'";
        add_cases(*below, name, known, cases);
    }
    cases += "        '" + path + "') words='" + (words + long_options(command)).substr(1) + "' ;;\n";
}

// Read from what the program parses by.
std::string completion_script(const CLI::App& app) {
    std::string known, cases;
    add_cases(app, "", known, cases);
    return "# source <(pawl completion); zsh: autoload -U bashcompinit && bashcompinit first\n"
           "_pawl() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} path= words= each\n"
           "    for each in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
           "        case \"$path $each\" in " +
           known +
           ") path+=\" $each\" ;; esac\n"
           "    done\n"
           "    case $path in\n" +
           cases +
           "    esac\n"
           "    COMPREPLY=($(compgen -W \"$words --json --database\" -- \"$word\"))\n"
           "}\n"
           "complete -o bashdefault -o default -F _pawl pawl\n";
}

void add_completion(Program& program) {
    program.app.add_subcommand("completion", "print completion for bash and zsh")->callback([&program] {
        program.chosen = [&program] {
            std::cout << completion_script(*program.app.app());
            return fine;
        };
    });
}

// What is not known of a command line says more than what it lacks.
std::string usage_problem(const CLI::App* app, const CLI::Error& problem) {
    const std::vector<std::string> strange = app->remaining(true);
    const bool lacks_command =
        problem.get_name() == "RequiredError" && std::string(problem.what()).starts_with("A subcommand");
    std::string text = problem.what();
    if (lacks_command)
        text = strange.empty() ? "which command?" : "there is no command \"" + shown(strange.front()) + "\"";
    if (text.find("not expected") != std::string::npos) {
        text = "not expected:";
        for (const std::string& one : strange) text += " " + shown(one);
    }
    return "pawl: " + without_controls(without_passwords(text)) +
           "\npawl --help lists the commands, pawl COMMAND --help says what one takes\n";
}

void add_group(Program& program, const char* title, void (*add)(Program&)) {
    const std::size_t before = program.app.app()->get_subcommands({}).size();
    add(program);
    const auto all = program.app.app()->get_subcommands({});
    for (std::size_t i = before; i < all.size(); ++i) all[i]->group(title);
}

// The settings of this program, which are flags of every command.
const SettingsTable<Program>& settings_table() {
    static const SettingsTable<Program> table(
        "PAWL",
        {{"database", member<&Program::connection, &ConnectionSettings::target>, any(), "",
          "libpq connection string (dbname=shop) or URI; what it leaves out comes from PGHOST, PGDATABASE and so on"},
         {"json", member<&Program::output, &Output::json>, any(), "", "Print JSON"}});
    return table;
}

void add_settings(Program& program) {
    program.app.add_flag("--json", program.output.json, settings_table().find("json").description);
    program.app.add_option("-d,--database", program.connection.target, settings_table().find("database").description);
}

std::vector<Setting> settings_of(const std::string& program) {
    if (program == "worker") return list_settings(WorkerSettings());
    if (program == "row_worker") return list_settings(RowWorkerSettings());
    if (program == "saga_worker") return list_settings(SagaWorkerSettings());
    return list_settings(ConductorSettings());
}

void add_settings_command(Program& program) {
    auto* command =
        program.app.add_subcommand("settings", "print what a worker or conductor reads from its environment");
    auto kind = std::make_shared<std::string>();
    command->add_option("kind", *kind, "worker, row_worker, saga_worker or conductor")
        ->required()
        ->check(IsMember{{"worker", "row_worker", "saga_worker", "conductor"}});
    command->callback([&program, kind] {
        program.chosen = [&program, kind] {
            auto list = nlohmann::ordered_json::array();
            const std::vector<Setting> settings = settings_of(*kind);
            for (const Setting& one : settings)
                list.push_back({{"name", one.name},
                                {"variable", one.variable},
                                {"type", one.type},
                                {"default", one.initial},
                                {"unit", one.unit},
                                {"range", one.range},
                                {"description", one.description}});
            print(program.output, list, settings_as_markdown(settings));
            return fine;
        };
    });
}

void add_commands(Program& program) {
    program.app.require_subcommand(1);
    program.app.app()->fallthrough();
    program.app.app()->failure_message(usage_problem);
    program.app.app()->set_version_flag("--version", "pawl " PAWL_VERSION, "print the version and exit");
    add_settings(program);
    add_group(program, "Lifecycles as files",
              [](Program& all) { add_lifecycle_commands(all), add_diff_commands(all); });
    add_group(program, "Machines and logs", add_machine_commands);
    add_group(program, "Tables and rows", add_row_commands);
    add_group(program, "Workflows (pawl_dag)", add_task_commands);
    add_group(program, "Operators of workflows", add_operator_commands);
    add_group(program, "Many at a time (pawl_api)", add_act_commands);
    add_group(program, "Other packs", [](Program& all) { add_bulk_commands(all), add_saga_commands(all); });
    add_group(program, "Several databases", add_move_commands);
    add_group(program, "The programs", [](Program& all) { add_settings_command(all), add_completion(all); });
    program.app.app()->footer(
        "Exit status: 0 success; 1 a finding; 2 usage, or a file that cannot be read or written;\n"
        "3 rejected by the database; 4 no connection. With --exit-code: 0 no change, 2 changes, 1 an error.");
}

int run(Program& program, int argc, char** argv) {
    CLI::App& app = *program.app.app();
    try {
        app.parse(argc, argv);
        return program.chosen();
    } catch (const CLI::ParseError& problem) {
        return app.exit(problem) == 0 ? fine : usage;  // which prints it
    } catch (const ConnectionLost& problem) {
        std::cerr << "pawl: " << message_of(Error("", problem.what())) << '\n';  // its code is the library's own
        return no_connection;
    } catch (const Error& problem) {
        std::cerr << "pawl: " << message_of(problem) << '\n';
        return problem.sqlstate().empty() ? usage : rejected;
    } catch (const std::exception& problem) {
        std::cerr << "pawl: " << without_controls(without_passwords(problem.what())) << '\n';
        return usage;
    }
}

// A full disk, or a closed descriptor: a file that was cut must not look whole.
int written(int code) {
    if (std::cout.flush()) return code;
    std::cerr << "pawl: standard output could not be written\n";
    return usage;
}

// As terraform and others have it, so that a script can tell changes from errors.
int detailed(int code) {
    return code == changes ? 2 : code == fine ? 0 : 1;
}

}  // namespace
}  // namespace pawl::cli

int main(int argc, char** argv) {
    using namespace pawl::cli;
    CLI::App app("state machines and workflows in PostgreSQL, from the command line", "pawl");
    Program program{.app = Command(&app)};
    program.output.terminal = ::isatty(STDOUT_FILENO) == 1;
    program.output.colours = program.output.terminal && std::getenv("NO_COLOR") == nullptr;
    add_commands(program);
    const int code = written(run(program, argc, argv));
    const bool asked = std::find(argv + 1, argv + argc, std::string_view("--exit-code")) != argv + argc;
    return asked ? detailed(code) : code;
}
