// May throw. Commands about several databases: pawl placements, move; pawl databases is in database_commands.cpp.
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "mover.hpp"
#include "sql.hpp"

namespace pawl::cli {

std::function<void(const std::string&)> say_to(const Program& program) {
    return [&program](const std::string& line) {
        if (!program.output.json) std::cout << without_controls(line) << std::endl;
    };
}

namespace {

void add_placements(Program& program) {
    program.run(program.app.add_subcommand("placements", "which database each namespace is in"),
                [&program](pqxx::connection& connection) {
                    print(program.output,
                          sql::run_alone(connection,
                                         "SELECT p.kind AS pack, coalesce(p.namespace, '(others)') AS namespace, "
                                         "p.database, p.placed_at FROM pawl.placement p ORDER BY 1, p.namespace"));
                    return fine;
                });
}

void add_move(Program& program) {
    auto request = std::make_shared<MoveRequest>();
    auto cancels = std::make_shared<bool>(false);
    auto only_counts = std::make_shared<bool>(false);
    request->kind = "dag";
    auto* command = program.app.add_subcommand(
        "move", "move a namespace with its work and logs to another database; again: continue");
    command
        ->add_option("namespace", request->name_space,
                     "of bulk operations the name of their definition, of sagas the board")
        ->required();
    command->add_option("target", request->database, "the name of the database");
    command->add_option("--pack", request->kind, "dag (default), bulk, saga, or a kind that you have declared");
    command->add_option("--drain", request->drain,
                        "how long claimed work may be reported before it moves, default 30 s, or as before");
    command->add_flag("--no-verify", *only_counts, "compare counts and digests, but do not run pawl.verify");
    command->add_flag("--cancel", *cancels, "cancel it, if the namespace has not arrived");
    program.run_alone(command, [&program, request, cancels, only_counts] {
        if (*cancels == !request->database.empty())
            usage_error("target", *cancels ? "--cancel takes none" : "which database?");
        if (*only_counts) request->verify = "false";
        program.check_target();
        Mover mover(program.connection, say_to(program));
        if (*cancels)
            mover.cancel(request->kind, request->name_space);
        else
            mover.move(*request);
        if (program.output.json)
            print(program.output, {{"namespace", request->name_space}, {"cancelled", *cancels}}, "");
        return fine;
    });
}

}  // namespace

void add_move_commands(Program& program) {
    add_database_commands(program);
    add_placements(program);
    add_move(program);
}

}  // namespace pawl::cli
