// May throw. See members.hpp.
#include "members.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include <pawl/errors.hpp>

namespace pawl::cli {

namespace {

const char* const all_databases = "SELECT coalesce(jsonb_agg(to_jsonb(d)), '[]') FROM pawl.database d";
const char* const all_placements = "SELECT coalesce(jsonb_agg(to_jsonb(p)), '[]') FROM pawl.placement p";

std::string one(LibpqSession& session, const std::string& statement,
                const std::vector<LibpqSession::Parameter>& parameters = {}) {
    return value_of(session.run(statement, parameters).get(), 0, 0);
}

// Of a process that was killed the server holds the lock until it notices.
void hold(LibpqSession& home) {
    for (int tries = 0; tries < 20; ++tries) {
        if (one(home, "SELECT pawl.acquire_session_lock(hashtextextended('pawl.placement', 0))") == "t") return;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    throw Error("55006", "another process changes the default place");
}

}  // namespace

Members::Members(const ConnectionSettings& member, Say say)
    : member_(member), say_(std::move(say)), home_(member_session(home_of(member, say_), say_)) {}

// Every database but the home.
std::vector<Members::Member> Members::others() {
    const auto found = home_.run("SELECT d.name, d.connection FROM pawl.database d WHERE NOT d.is_here ORDER BY 1");
    std::vector<Member> members;
    for (int i = 0; i < PQntuples(found.get()); ++i)
        members.push_back({value_of(found.get(), i, 0), value_of(found.get(), i, 1)});
    return members;
}

LibpqSession Members::session_of(const Member& member) {
    return member_session(with_target(member_, member.connection), say_);
}

void Members::copy_to(LibpqSession& session) {
    session.run("SELECT pawl.copy_placements($1, $2)", {one(home_, all_databases), one(home_, all_placements)});
}

// From then on the database takes no namespaces without a place of their own. Returns those that have one, as an array
// of [kind, namespace].
nlohmann::json Members::close(LibpqSession& session, const std::vector<std::string>& kinds,
                              const std::string& database) {
    nlohmann::json placed = nlohmann::json::array();
    for (const std::string& kind : kinds) session.run("SELECT FROM pawl.place_others($1, $2)", {kind, database});
    wait_for_open_transactions(session, say_);
    for (const std::string& kind : kinds) {
        const auto found = session.run("SELECT n FROM pawl.place_others($1, $2) n", {kind, database});
        for (int i = 0; i < PQntuples(found.get()); ++i)
            placed.push_back(nlohmann::json::array({kind, value_of(found.get(), i, 0)}));
    }
    return placed;
}

// At no time two databases take the same namespace: the place is closed everywhere, and then opened in the new
// database.
void Members::place_others(const std::string& kind, const std::string& database) {
    hold(home_);
    const std::string here = one(home_, "SELECT coalesce((SELECT d.name FROM pawl.database d WHERE d.is_here), '')");
    std::vector<std::string> kinds;
    const auto declared =
        home_.run("SELECT DISTINCT t.kind FROM pawl.placed_table t WHERE t.kind = $1 OR $1 = '' ORDER BY 1", {kind});
    for (int i = 0; i < PQntuples(declared.get()); ++i) kinds.emplace_back(value_of(declared.get(), i, 0));
    if (kinds.empty())
        throw Error("42704", "no extension of the home divides its work by namespaces of kind \"" + kind + "\"");
    std::vector<std::pair<std::string, LibpqSession>> sessions;  // all databases must answer before one is closed
    for (const Member& member : others()) sessions.emplace_back(member.name, session_of(member));
    const bool known = database == here || std::any_of(sessions.begin(), sessions.end(),
                                                       [&](const auto& member) { return member.first == database; });
    if (!known) throw Error("42704", "there is no database \"" + database + "\"\nHINT:  pawl databases list");

    nlohmann::json placed = nlohmann::json::array();
    for (auto& [name, session] : sessions) {
        copy_to(session);
        if (name == database) continue;
        const nlohmann::json found = close(session, kinds, database);
        placed.insert(placed.end(), found.begin(), found.end());
    }
    home_.run("BEGIN");
    home_.run(
        "INSERT INTO pawl.placement (kind, namespace, database) SELECT p.kind, x ->> 1, p.database"
        " FROM jsonb_array_elements($1::jsonb) x JOIN pawl.placement p ON p.kind = x ->> 0 AND p.namespace IS NULL"
        " ON CONFLICT DO NOTHING",
        {placed.dump()});
    for (const std::string& one_kind : kinds) home_.run("SELECT FROM pawl.place_others($1, $2)", {one_kind, database});
    home_.run("COMMIT");
    if (database != here) close(home_, kinds, database);
    for (auto& [name, session] : sessions) {
        session.run("BEGIN");
        copy_to(session);
        for (const std::string& one_kind : kinds)
            session.run("SELECT FROM pawl.place_others($1, $2)", {one_kind, database});
        session.run("COMMIT");
    }
}

void Members::remove(const std::string& database) {
    home_.run("SELECT pawl_move.remove_database($1)", {database});
    for (const Member& member : others()) {
        try {
            LibpqSession session = session_of(member);
            copy_to(session);
        } catch (const Error& problem) {
            say_("database \"" + member.name + "\" was not told: " + problem.what());
        }
    }
}

nlohmann::ordered_json Members::compare(const Member& member, bool update) {
    LibpqSession session = session_of(member);
    const std::string name = one(session, "SELECT coalesce((SELECT d.name FROM pawl.database d WHERE d.is_here), '')");
    if (name != member.name)
        return {{"database", member.name},
                {"status", "conflict"},
                {"details", "the connection leads to " +
                                (name.empty() ? "a database that is not one of several" : "database " + name)}};
    // a namespace that is being moved is where its move says
    const std::string moving = one(home_,
                                   "SELECT coalesce(jsonb_agg(jsonb_build_array(m.kind, m.namespace)), '[]')"
                                   " FROM pawl_move.moves m WHERE m.state <> 'done' AND m.state <> 'cancelled'");
    if (update) copy_to(session);
    const auto found = session.run(
        "SELECT coalesce(bool_or(c.own), false)::integer, count(*), coalesce(string_agg(format('%s of %s: here %s, in"
        " the home %s', coalesce('\"' || c.namespace || '\"', 'all others'), c.kind, coalesce(c.here, 'nowhere'),"
        " coalesce(c.given, 'nowhere')), '; ' ORDER BY c.kind, c.namespace) FILTER (WHERE c.n <= 10), '')"
        "  FROM (SELECT c.*, row_number() OVER (ORDER BY c.own DESC, c.kind, c.namespace) AS n"
        "          FROM pawl.compare_placements($1) c"
        "         WHERE jsonb_build_array(c.kind, c.namespace) <> ALL (ARRAY(SELECT jsonb_array_elements($2::jsonb)))) "
        "c",
        {one(home_, all_placements), moving});
    const bool conflicts = std::string(value_of(found.get(), 0, 0)) == "1";
    const bool differs = std::string(value_of(found.get(), 0, 1)) != "0";
    return {{"database", member.name},
            {"status", conflicts ? "conflict"
                       : differs ? "outdated"
                                 : "ok"},
            {"details", value_of(found.get(), 0, 2)}};
}

nlohmann::ordered_json Members::check(bool update) {
    nlohmann::ordered_json results = nlohmann::ordered_json::array();
    for (const Member& member : others()) {
        try {
            results.push_back(compare(member, update));
        } catch (const ConnectionLost& problem) {
            results.push_back({{"database", member.name}, {"status", "unreachable"}, {"details", problem.what()}});
        }
    }
    return results;
}

}  // namespace pawl::cli
