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

// For bash; `source <(pawl completion)`.
void add_completion(Program& program) {
    program.app.add_subcommand("completion", "print completion for bash")->callback([&program] {
        program.chosen = [&program] {
            std::string names;
            for (const CLI::App* command : program.app.get_subcommands({})) names += command->get_name() + " ";
            std::cout << "complete -W '" << names << "--json --database --help' -o default pawl\n";
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
