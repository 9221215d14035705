// May throw. pawl diff and pawl watch: machines compared, and checked while one draws.
#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <thread>

#include <pawl/worker.hpp>

#include "commands.hpp"
#include "lifecycle/change_text.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/watch.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

struct Arguments {
    std::string before, after;
    bool diagram = false, exit_code = false;
};

struct Side {
    core::Diagram diagram;
    std::string name;
};

bool is_file(const std::string& name) {
    return name.ends_with(".mmd") || name.find('/') != std::string::npos;
}

// A machine of the database: name, or name@version.
Side stored(pqxx::connection& connection, const std::string& name) {
    const auto at = name.rfind('@');
    const std::string version = at == std::string::npos ? "" : name.substr(at + 1);
    if (at != std::string::npos &&
        (version.empty() || version.size() > 9 || version.find_first_not_of("0123456789") != std::string::npos))
        usage_error("\"" + name + "\" is neither a file nor a machine: name, or name@version");
    const auto rows = sql::run_alone(connection, "SELECT pawl.diagram($1, $2::integer)", name.substr(0, at),
                                     version.empty() ? nullptr : version.c_str());
    return {core::read_mermaid(rows[0][0].as<std::string>()), name};
}

class Sides {
public:
    explicit Sides(const Program& program) : program_(program) {}

    Side side(const std::string& name) {
        if (is_file(name)) return {read_lifecycle(name, text_of_file(name)).diagram, name};
        return stored(connection(), name);
    }

    // The machine of a file as the database has it; nothing if it is new.
    Side stored_of(const std::string& file) {
        const std::string machine = read_lifecycle(file, text_of_file(file)).machine;
        const auto rows = sql::run_alone(connection(), "SELECT FROM pawl.machine m WHERE m.machine = $1", machine);
        if (rows.empty())
            throw Error("PW008", "unknown machine \"" + machine + "\"\nHINT:  pawl plan shows new machines");
        return stored(connection(), machine);
    }

private:
    pqxx::connection& connection() {
        if (!connection_) connection_ = program_.open();
        return *connection_;
    }

    const Program& program_;
    std::unique_ptr<pqxx::connection> connection_;
};

int run_diff(const Program& program, const Arguments& given) {
    Sides sides(program);
    if (given.after.empty() && !is_file(given.before)) usage_error("which second file, or machine@version?");
    const Side before = given.after.empty() ? sides.stored_of(given.before) : sides.side(given.before);
    const Side after = sides.side(given.after.empty() ? given.before : given.after);
    const auto changed = core::diff(core::compile(before.diagram), core::compile(after.diagram));
    const Paint paint{program.output.colours};
    if (given.diagram) {
        const std::string text = core::write_mermaid(core::diff_diagram(before.diagram, after.diagram));
        print(program.output, {{"mermaid", text}}, text.substr(0, text.size() - 1));
    } else if (program.output.json) {
        print(program.output, changes_json(changed), "");
    } else {
        std::cout << paint("- " + one_line(before.name), Colour::red) << '\n'
                  << paint("+ " + one_line(after.name), Colour::green) << "\n\n"
                  << (changed.empty() ? "No difference.\n" : changes_text(changed, paint, ""));
    }
    return given.exit_code && !changed.empty() ? changes : fine;
}

void add_diff(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("diff", "what changes from one version of a machine to another");
    command->add_option("before", given->before, "a file, a machine of the database, or machine@version")->required();
    command->add_option("after", given->after, "the same; without it a file is compared with its machine");
    command->add_flag("--diagram", given->diagram, "print both as one Mermaid diagram, in colours");
    command->add_flag("--exit-code", given->exit_code, "end with 0: no difference, 2: differences, 1: any error");
    program.run_alone(command, [&program, given] { return run_diff(program, *given); });
}

int run_watch(const Program& program, const std::string& file) {
    std::atomic<bool> stopped = false;
    StopOnSignals on_signals([&stopped] { stopped = true; });
    Watch watch(file);
    while (!stopped && std::cout) {
        if (const auto report = watch.look()) {
            if (program.output.json)
                std::cout << report->json.dump() << std::endl;
            else
                std::cout << (program.output.colours ? "\033[2J\033[H" : "")
                          << coloured_only(report->text(program.output.colours)) << std::endl;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return fine;
}

void add_watch(Program& program) {
    auto file = std::make_shared<std::string>();
    auto* command = program.app.add_subcommand("watch", "check a diagram whenever its file changes; ends by Ctrl-C");
    command->add_option("file", *file, "a Mermaid stateDiagram-v2")->required();
    program.run_alone(command, [&program, file] { return run_watch(program, *file); });
}

}  // namespace

void add_diff_commands(Program& program) {
    add_diff(program);
    add_watch(program);
}

}  // namespace pawl::cli
