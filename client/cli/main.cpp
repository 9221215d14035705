// pawl: machines and workflows from the command line. Exit codes: 0 fine, 1 something was found, 2 usage, 3 the database refused, 4 no
// connection.
#include <fstream>
#include <iostream>
#include <iterator>

#include <unistd.h>

#include <pawl/errors.hpp>

#include "commands.hpp"
#include "wfformat.hpp"

namespace pawl::cli {

void Program::run(CLI::App* command, std::function<int(pqxx::connection&)> body) {
    command->callback([this, body = std::move(body)] {
        chosen = [this, body] {
            const auto connected = connect(connection);
            return body(*connected);
        };
    });
}

std::string read_file(const std::string& name) {
    if (name == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
    std::ifstream in(name);
    if (!in) throw CLI::ValidationError("cannot read " + name);
    return {std::istreambuf_iterator<char>(in), {}};
}

namespace {

std::string long_options(const CLI::App& command) {
    std::string options;
    for (const CLI::Option* option : command.get_options())
        for (const std::string& name : option->get_lnames()) options += " --" + name;
    return options;
}

// The commands of the program and the options of each, as a shell wants them; read from what the program parses by.
std::string completion_script(const CLI::App& app) {
    std::string commands, cases;
    for (const CLI::App* command : app.get_subcommands({})) {
        commands += (commands.empty() ? "" : " ") + command->get_name();
        std::string options;
        for (const CLI::App* below : command->get_subcommands({})) options += " " + below->get_name() + long_options(*below);
        options += long_options(*command);
        cases += "        " + command->get_name() + ") options='" + options.substr(1) + "' ;;\n";
    }
    return "# source <(pawl completion); zsh: autoload -U bashcompinit && bashcompinit first\n"
           "_pawl() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} command= options= each\n"
           "    for each in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
           "        case \" " + commands + " \" in *\" $each \"*) command=$each; break ;; esac\n"
           "    done\n"
           "    case $command in\n"
           "        '') options='" + commands + "' ;;\n" + cases +
           "    esac\n"
           "    COMPREPLY=($(compgen -W \"$options --json --database\" -- \"$word\"))\n"
           "}\n"
           "complete -o bashdefault -o default -F _pawl pawl\n";
}

void add_completion(Program& program) {
    program.app.add_subcommand("completion", "print completion for bash and zsh")->callback([&program] {
        program.chosen = [&program] {
            std::cout << completion_script(program.app);
            return fine;
        };
    });
}

}  // namespace
}  // namespace pawl::cli

int main(int argc, char** argv) {
    using namespace pawl::cli;
    Program program;
    program.output.colours = ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
    program.app.require_subcommand(1);
    program.app.fallthrough();
    program.app.add_flag("--json", program.output.json, "print JSON");
    program.app.add_option("-d,--database", program.connection.target, "libpq connection string or URI; default: PGHOST and its like");
    add_machine_commands(program);
    add_task_commands(program);
    add_operator_commands(program);
    add_bulk_commands(program);
    add_saga_commands(program);
    add_completion(program);
    try {
        program.app.parse(argc, argv);
        return program.chosen();
    } catch (const CLI::ParseError& problem) {
        return program.app.exit(problem) == 0 ? fine : usage;
    } catch (const pawl::ConnectionLost& problem) {
        std::cerr << "pawl: " << problem.what() << '\n';
        return no_connection;
    } catch (const pawl::Error& problem) {
        std::cerr << "pawl: " << problem.what() << (problem.sqlstate().empty() ? "" : " [" + problem.sqlstate() + "]") << '\n';
        return refused;
    } catch (const std::exception& problem) {
        std::cerr << "pawl: " << problem.what() << '\n';
        return usage;
    }
}
