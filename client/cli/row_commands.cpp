// May throw. Commands of enforced tables and their rows: each is one function of the kernel.
#include <iostream>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

using Text = std::optional<std::string>;

struct Arguments {
    std::string table, column, machine, event;
    Text state_column, version, key, on_delete, errors, remap, metadata, processor, token;
    std::vector<std::string> keys;
    bool always = false;
};

using Shared = std::shared_ptr<Arguments>;

void add_state_column(Command* command, const Shared& given) {
    command->add_option("--column", given->state_column, "the state column, where the table has several machines");
}

// A number that a function takes, checked here, so that the error names the option.
const char* number(const char* option, const Text& value) {
    if (!value) return nullptr;
    const std::size_t sign = value->starts_with('-') ? 1 : 0;
    if (value->size() == sign || value->find_first_not_of("0123456789", sign) != std::string::npos)
        usage_error(option, "\"" + *value + "\" is not a number");
    return value->c_str();
}

Text json_option(const char* option, const Text& value) {
    return value ? Text(json_of(option, *value).dump()) : value;
}

void add_enforce(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("enforce", "bind a machine to a column of a table");
    command->add_option("table", given->table, "its name")->required();
    command->add_option("column", given->column, "the state column")->required();
    command->add_option("machine", given->machine, "the machine's name")->required();
    command->add_option("--version", given->version, "default: the newest");
    command->add_option("--key", given->key, "columns that identify a row: id, or tenant,id; default: the primary key");
    command->add_option("--on-delete", given->on_delete, "allow (default), terminal or deny");
    command->add_option("--errors", given->errors, "pawl (default) or check_violation");
    command->add_flag("--always", given->always, "validate replicated rows too");
    program.run(command, [&program, given](pqxx::connection& connection) {
        const Text key = given->key ? Text("{" + *given->key + "}") : std::nullopt;
        sql::run_alone(connection,
                       "SELECT pawl.enforce($1::regclass, $2, $3, version => $4::integer, key => $5::name[], "
                       "on_delete => $6, always => $7::boolean, errors => $8)",
                       given->table, given->column, given->machine, number("--version", given->version),
                       sql::or_null(key), sql::or_null(given->on_delete), given->always ? "true" : nullptr,
                       sql::or_null(given->errors));
        print(program.output, {{"table", given->table}, {"column", given->column}, {"machine", given->machine}},
              given->machine + " is enforced on " + given->table + "." + given->column);
        return fine;
    });
}

void add_upgrade(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("upgrade", "validate a table by the newest version of its machine");
    command->add_option("table", given->table, "its name")->required();
    command->add_option("--remap", given->remap, "new states of rows in states that go, as JSON: {\"old\": \"new\"}");
    add_state_column(command, given);
    program.run(command, [&program, given](pqxx::connection& connection) {
        const Text remap = json_option("--remap", given->remap);
        const auto made =
            sql::run_alone(connection, "SELECT pawl.upgrade($1::regclass, $2, remap => $3::jsonb) AS version",
                           given->table, sql::or_null(given->state_column), sql::or_null(remap));
        print(program.output, as_json(made)[0], given->table + " has version " + made[0][0].as<std::string>());
        return fine;
    });
}

void add_release(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("release", "end the enforcement on a table; its log stays, closed");
    command->add_option("table", given->table, "its name")->required();
    add_state_column(command, given);
    program.run(command, [&program, given](pqxx::connection& connection) {
        sql::run_alone(connection, "SELECT pawl.release($1::regclass, $2)", given->table,
                       sql::or_null(given->state_column));
        print(program.output, {{"released", given->table}}, given->table + " is released");
        return fine;
    });
}

// The key as an argument: one column as its text, several as an array of texts. The server reads them by their types.
std::string key_argument(const Arguments& given) {
    return given.keys.size() == 1 ? "$2::text" : "$2::text[]";
}

std::string key_value(const Arguments& given) {
    return given.keys.size() == 1 ? given.keys[0] : sql::text_array(given.keys);
}

void add_fire(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand("fire", "change the state of a row by an event and print the new state");
    command->add_option("table", given->table, "an enforced table")->required();
    command->add_option("event", given->event, "the event; several as a,b: taken in one write")->required();
    command->add_option("key", given->keys, "the row's key, a value for each of its columns")->required();
    command->add_option("--metadata", given->metadata, "JSON that goes into the log");
    command->add_option("--processor", given->processor, "who acts; default: the setting pawl.processor");
    command->add_option("--token", given->token, "the fencing token of owned work");
    add_state_column(command, given);
    program.run(command, [&program, given](pqxx::connection& connection) {
        const Text metadata = json_option("--metadata", given->metadata);
        const bool several = given->event.find(',') != std::string::npos;
        const std::string event = several ? "{" + given->event + "}" : given->event;
        const auto fired = sql::run_alone(
            connection,
            "SELECT pawl.fire($1::regclass, " + key_argument(*given) + ", " +
                (several ? "events => $3::text[]" : "event => $3") +
                ", metadata => $4::jsonb, state_column => $5, processor => $6, token => $7::bigint) AS state",
            given->table, key_value(*given), event, sql::or_null(metadata), sql::or_null(given->state_column),
            sql::or_null(given->processor), number("--token", given->token));
        print(program.output, as_json(fired)[0], fired[0][0].as<std::string>());
        return fine;
    });
}

void add_available(Program& program) {
    auto given = std::make_shared<Arguments>();
    auto* command = program.app.add_subcommand(
        "available", "the events of a row, and what blocks them; ends with 1 if none is allowed");
    command->add_option("table", given->table, "an enforced table")->required();
    command->add_option("key", given->keys, "the row's key, a value for each of its columns")->required();
    add_state_column(command, given);
    program.run(command, [&program, given](pqxx::connection& connection) {
        const auto rows = sql::run_alone(connection,
                                         "SELECT event, to_state, allowed, to_jsonb(blocked_by) AS blocked_by FROM "
                                         "pawl.available($1::regclass, " +
                                             key_argument(*given) + ", $3)",
                                         given->table, key_value(*given), sql::or_null(given->state_column));
        print(program.output, rows);
        for (const auto& row : rows)
            if (row["allowed"].as<bool>()) return fine;
        return findings;
    });
}

}  // namespace

void add_row_commands(Program& program) {
    add_enforce(program);
    add_upgrade(program);
    add_release(program);
    add_fire(program);
    add_available(program);
}

}  // namespace pawl::cli
