// May throw. pawl databases: which there are, and what concerns all of them.
#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "members.hpp"
#include "secrets.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

struct Member {
    std::string name, connection;
};

void check_connection(const Member& member) {
    if (has_password(member.connection))
        usage_error("connection",
                    "every user of the databases can read it: put the password into ~/.pgpass, or give service=...");
}

std::unique_ptr<pqxx::connection> connect_to(const Program& program, const std::string& target) {
    ConnectionSettings settings = program.connection;
    settings.target = target;
    return connect(settings);
}

// Whether the connection string leads to the database that has this row of pawl.database.
bool leads_to(const Program& program, const Member& member) {
    const auto there = connect_to(program, member.connection);
    return !sql::run_alone(*there, "SELECT 1 FROM pawl.database d WHERE d.is_here AND d.name = $1", member.name)
                .empty();
}

void add_init(Program& program, Command& databases) {
    auto member = std::make_shared<Member>();
    auto* command =
        databases.add_subcommand("init", "make this database the first of several, and the one whose placements count");
    command->add_option("name", member->name, "what it is called")->required();
    command
        ->add_option("connection", member->connection,
                     "how the others reach it: a libpq connection string without "
                     "a password")
        ->required();
    program.run(command, [&program, member](pqxx::connection& connection) {
        check_connection(*member);
        sql::run_alone(connection, "CREATE EXTENSION IF NOT EXISTS pawl_move");
        pqxx::work transaction(connection);
        sql::run(transaction,
                 "INSERT INTO pawl.database (name, connection, is_home, is_here) VALUES ($1, $2, true, true)",
                 member->name, member->connection);
        sql::run(transaction,
                 "INSERT INTO pawl.placement (kind, namespace, database)"
                 " SELECT DISTINCT t.kind, NULL, $1 FROM pawl.placed_table t ON CONFLICT DO NOTHING",
                 member->name);
        sql::commit(transaction);
        if (!leads_to(program, *member)) {
            sql::run_alone(connection, "WITH p AS (DELETE FROM pawl.placement) DELETE FROM pawl.database");
            throw Error("08001", "the connection string leads to another database than this one");
        }
        print(program.output, {{"database", member->name}}, "this is database \"" + member->name + "\"");
        return fine;
    });
}

// The namespaces that the new member has already, as an array of [kind, namespace]; in `other`: that are there, too.
nlohmann::json namespaces_of(pqxx::connection& database) {
    return sql::run_alone(database,
                          "SELECT coalesce(jsonb_agg(jsonb_build_array(n.kind, n.namespace)), '[]') FROM "
                          "pawl.namespaces() n")[0][0]
        .json();
}

void write_member(pqxx::connection& database, const nlohmann::json& databases, const nlohmann::json& placements,
                  const std::string& here) {
    pqxx::work transaction(database);
    sql::run(transaction,
             "INSERT INTO pawl.database AS d (name, connection, is_home, is_here)"
             " SELECT x.name, x.connection, x.is_home, x.name = $2 FROM jsonb_to_recordset($1::jsonb)"
             " x(name text, connection text, is_home boolean)"
             " ON CONFLICT (name) DO UPDATE SET connection = excluded.connection",
             databases.dump(), here);
    sql::run(transaction,
             "INSERT INTO pawl.placement (kind, namespace, database)"
             " SELECT x.kind, x.namespace, x.database FROM jsonb_to_recordset($1::jsonb)"
             " x(kind text, namespace text, database text) ON CONFLICT (kind, namespace) DO NOTHING",
             placements.dump());
    sql::commit(transaction);
}

nlohmann::json rows_of(pqxx::connection& database, const std::string& table) {
    return sql::run_alone(database, "SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]') FROM " + table + " t")[0][0].json();
}

// The connections of databases other than the home that namespaces without a place of their own are in.
std::vector<std::string> default_places(pqxx::connection& home) {
    std::vector<std::string> targets;
    for (const auto& row : sql::run_alone(home,
                                          "SELECT DISTINCT d.connection FROM pawl.placement p JOIN pawl.database d"
                                          " ON d.name = p.database WHERE p.namespace IS NULL AND NOT d.is_here"))
        targets.push_back(row[0].as<std::string>());
    return targets;
}

void require_others(pqxx::connection& database, const nlohmann::json& own) {
    for (const nlohmann::json& one : namespaces_of(database))
        for (const nlohmann::json& mine : own)
            if (one == mine)
                throw Error("55000", "both databases have rows of namespace \"" + one[1].get<std::string>() + "\"");
}

// From then on the database rejects the namespaces of the new member.
void take_note(pqxx::connection& database, const Member& member, const nlohmann::json& own) {
    pqxx::work transaction(database);
    sql::run(transaction, "INSERT INTO pawl.database (name, connection) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
             member.name, member.connection);
    sql::run(transaction,
             "INSERT INTO pawl.placement (kind, namespace, database) SELECT x ->> 0, x ->> 1, $2"
             " FROM jsonb_array_elements($1::jsonb) x ON CONFLICT (kind, namespace) DO NOTHING",
             own.dump(), member.name);
    sql::commit(transaction);
}

// A database that joins keeps the namespaces that it has, unless another member has rows of them.
int join(const Program& program, pqxx::connection& home, const Member& member) {
    if (sql::run_alone(home, "SELECT 1 FROM pawl.database d WHERE d.is_here AND d.is_home").empty())
        throw Error("55000",
                    "databases are added in the one whose placements count\nHINT:  pawl databases init NAME "
                    "CONNECTION");
    const auto there = connect_to(program, member.connection);
    const sql::Rows already = sql::run_alone(*there, "SELECT d.name FROM pawl.database d WHERE d.is_here");
    if (!already.empty() && already[0][0].as<std::string>() != member.name)
        throw Error("55000", "the connection string leads to database \"" + already[0][0].as<std::string>() + "\"");
    nlohmann::json databases = rows_of(home, "pawl.database"), placements = rows_of(home, "pawl.placement");
    const nlohmann::json own = namespaces_of(*there);
    if (already.empty()) {
        databases.push_back({{"name", member.name}, {"connection", member.connection}, {"is_home", false}});
        for (const nlohmann::json& one : own) {
            for (const nlohmann::json& known : placements)
                if (known.at("kind") == one[0] && known.at("namespace") == one[1])
                    throw Error("55000", "namespace \"" + one[1].get<std::string>() + "\" is placed in database \"" +
                                             known.at("database").get<std::string>() +
                                             "\", and the new database has rows of it");
            placements.push_back({{"kind", one[0]}, {"namespace", one[1]}, {"database", member.name}});
        }
        require_others(home, own);
        for (const std::string& target : default_places(home)) require_others(*connect_to(program, target), own);
        write_member(*there, databases, placements, member.name);
    }
    // in the member first: until it is known in the home, nothing goes there
    for (const std::string& target : default_places(home)) take_note(*connect_to(program, target), member, own);
    take_note(home, member, own);
    return fine;
}

void add_add(Program& program, Command& databases) {
    auto member = std::make_shared<Member>();
    auto* command = databases.add_subcommand("add", "add a database, in the one whose placements count");
    command->add_option("name", member->name, "what it is called")->required();
    command
        ->add_option("connection", member->connection,
                     "how the others reach it: a libpq connection string without a password")
        ->required();
    program.run(command, [&program, member](pqxx::connection& connection) {
        check_connection(*member);
        join(program, connection, *member);
        print(program.output, {{"database", member->name}}, "database \"" + member->name + "\" is added");
        return fine;
    });
}

void add_remove(Program& program, Command& databases) {
    auto name = std::make_shared<std::string>();
    auto* command = databases.add_subcommand("remove", "remove a database that no namespace is placed in");
    command->add_option("name", *name, "what it is called")->required();
    program.run_alone(command, [&program, name] {
        program.check_target();
        Members(program.connection, say_to(program)).remove(*name);
        print(program.output, {{"database", *name}},
              "database \"" + *name + "\" is removed; it still rejects namespaces that are placed elsewhere");
        return fine;
    });
}

void add_default(Program& program, Command& databases) {
    auto name = std::make_shared<std::string>(), kind = std::make_shared<std::string>();
    auto* command = databases.add_subcommand(
        "default", "set the database of all namespaces that have no place of their own; again: continue");
    command->add_option("name", *name, "what it is called")->required();
    command->add_option("--pack", *kind, "dag, bulk, saga, or a kind that you have declared; default: all");
    program.run_alone(command, [&program, name, kind] {
        program.check_target();
        Members(program.connection, say_to(program)).place_others(*kind, *name);
        print(program.output, {{"database", *name}},
              "namespaces without a place of their own are in database \"" + *name + "\"");
        return fine;
    });
}

void add_check(Program& program, Command& databases) {
    auto update = std::make_shared<bool>(false);
    auto* command = databases.add_subcommand("check", "compare what the databases know of placements with the home");
    command->add_flag("--update", *update, "bring outdated copies up to date");
    program.run_alone(command, [&program, update] {
        program.check_target();
        const nlohmann::ordered_json results = Members(program.connection, say_to(program)).check(*update);
        std::string text;
        bool agree = true;
        for (const auto& one : results) {
            agree = agree && one.at("status") == "ok";
            text += (text.empty() ? "" : "\n") + one.at("database").get<std::string>() + ": " +
                    one.at("status").get<std::string>();
            if (one.at("details") != "") text += ", " + one.at("details").get<std::string>();
        }
        print(program.output, results, text);
        return agree ? fine : findings;
    });
}

// Copies the tokens of the home, with their revocations, to the others. One that is down, or rejects them, stops none
// of the others.
int copy_tokens(const Program& program, pqxx::connection& connection) {
    const sql::Rows elsewhere =
        sql::run_alone(connection, "SELECT d.connection FROM pawl.database d WHERE d.is_home AND NOT d.is_here");
    const auto home = elsewhere.empty() ? nullptr : connect_to(program, elsewhere[0][0].as<std::string>());
    pqxx::connection& source = home ? *home : connection;
    const std::string tokens = rows_of(source, "pawl_api.tokens").dump();
    nlohmann::ordered_json done = nlohmann::json::array();
    std::string text;
    bool complete = true;
    for (const auto& member : sql::run_alone(
             source, "SELECT d.name, d.connection FROM pawl.database d WHERE NOT d.is_here ORDER BY d.name")) {
        const auto name = member[0].as<std::string>();
        std::string problem;
        std::int64_t changed = 0;
        try {
            const auto there = connect_to(program, member[1].as<std::string>());
            changed =
                sql::run_alone(*there, "SELECT pawl_api.accept_tokens($1::jsonb)", tokens)[0][0].as<std::int64_t>();
        } catch (const Error& error) {
            problem = error.what();
            complete = false;
        }
        done.push_back({{"database", name}, {"changed", changed}});
        if (!problem.empty()) done.back()["problem"] = problem;
        text += (text.empty() ? "" : "\n") + name + ": " +
                (problem.empty() ? std::to_string(changed) + " tokens new or changed" : problem);
    }
    print(program.output, done, text);
    return complete ? fine : findings;
}

void add_tokens(Program& program, Command& databases) {
    program.run(
        databases.add_subcommand("tokens", "make tokens of the HTTP API valid in all of them; again: what has changed"),
        [&program](pqxx::connection& connection) { return copy_tokens(program, connection); });
}

void add_list(Program& program, Command& databases) {
    program.run(databases.add_subcommand("list", "their names and connections"), [&program](
                                                                                     pqxx::connection& connection) {
        print(program.output, sql::run_alone(connection,
                                             "SELECT d.name, d.connection, d.is_home AS home, d.is_here AS here,"
                                             " (SELECT count(*) FROM pawl.placement p WHERE p.database = d.name AND "
                                             "p.namespace IS NOT NULL) AS namespaces"
                                             " FROM pawl.database d ORDER BY d.name"));
        return fine;
    });
}

}  // namespace

void add_database_commands(Program& program) {
    auto* databases = program.app.add_subcommand("databases", "the databases among which work is divided");
    databases->require_subcommand(1);
    add_init(program, *databases);
    add_add(program, *databases);
    add_remove(program, *databases);
    add_default(program, *databases);
    add_check(program, *databases);
    add_tokens(program, *databases);
    add_list(program, *databases);
}

}  // namespace pawl::cli
