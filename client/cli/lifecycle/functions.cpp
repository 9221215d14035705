// May throw. See functions.hpp.
#include "lifecycle/functions.hpp"

#include <algorithm>
#include <regex>
#include <set>

#include "core/scanner.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

// As the server looks up a name: in one schema, or along the search path.
constexpr const char* name_statement =
    "SELECT f.name, (SELECT pg_catalog.format('%I.%I', n.nspname, p.proname) FROM pg_catalog.pg_proc p"
    "     JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    "    WHERE p.pronargs = 2 AND p.proname = coalesce(nullif(pg_catalog.split_part(f.name, '.', 2), ''), f.name)"
    "      AND CASE WHEN f.name LIKE '%.%' THEN n.nspname = pg_catalog.split_part(f.name, '.', 1)"
    "               ELSE n.nspname = ANY (pg_catalog.current_schemas(true)) END"
    "    ORDER BY pg_catalog.array_position(pg_catalog.current_schemas(true), n.nspname) LIMIT 1) AS qualified"
    "  FROM pg_catalog.unnest($1::text[]) f(name)";

// What a call of them does: another body, owner or setting is another function.
constexpr const char* facts_statement =
    "SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(p.oid, pg_catalog.pg_get_userbyid(p.proowner),"
    "    p.prosecdef, p.prolang, p.provolatile, p.proisstrict, p.proconfig, p.probin, pg_catalog.md5(p.prosrc),"
    "    pg_catalog.md5(p.prosqlbody::text)) ORDER BY p.oid), '[]')::text"
    "  FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    " WHERE p.pronargs = 2 AND pg_catalog.format('%I.%I', n.nspname, p.proname) = ANY ($1::text[])";

// Those that no function of two rows of the table fits: of its row type, anyelement or record.
constexpr const char* fit_statement =
    "SELECT f.name FROM pg_catalog.unnest($2::text[]) f(name), pg_catalog.pg_class c"
    " WHERE c.oid = $1::oid AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p"
    "     JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    "    WHERE pg_catalog.format('%I.%I', n.nspname, p.proname) = f.name AND p.pronargs = 2"
    "      AND p.proargtypes[0] = p.proargtypes[1] AND p.prokind = 'f' AND NOT p.proretset"
    "      AND p.proargtypes[0] = ANY (ARRAY[c.reltype, 'anyelement'::pg_catalog.regtype, "
    "'record'::pg_catalog.regtype])"
    "      AND ($3 = 'effect' OR p.prorettype = 'boolean'::pg_catalog.regtype))";

// Any other text in a label is a note.
bool looks_like_a_name(const std::string& name) {
    static const std::regex shape(
        "[A-Za-z_\\x80-\\xff][A-Za-z0-9_$\\x80-\\xff]*(\\.[A-Za-z_\\x80-\\xff][A-Za-z0-9_$\\x80-\\xff]*)?");
    return std::regex_match(name, shape);
}

std::string key_of(const std::string& name) {
    return core::lower(name);
}

std::string found(const Present& present, const std::string& name) {
    const auto function = present.functions.find(key_of(name));
    return function == present.functions.end() ? "" : function->second;
}

std::set<std::string> names_of(const Lifecycle& lifecycle, bool guards) {
    std::set<std::string> names;
    for (const core::Transition& transition : lifecycle.compiled.transitions())
        for (const std::string& name : guards ? transition.guards : transition.effects)
            if (looks_like_a_name(name)) names.insert(key_of(name));
    return names;
}

void read_fit(pqxx::transaction_base& transaction, const Lifecycle& lifecycle, bool guards, Present& present) {
    std::vector<std::string> qualified;
    for (const std::string& name : names_of(lifecycle, guards))
        if (const std::string function = found(present, name); !function.empty()) qualified.push_back(function);
    if (qualified.empty()) return;
    for (const TableEntry& entry : lifecycle.tables) {
        const auto table = present.tables.find({entry.relation, entry.column});
        if (table == present.tables.end()) continue;
        const char* kind = guards ? "guard" : "effect";
        for (const auto& row :
             sql::run(transaction, fit_statement, table->second.oid, sql::text_array(qualified), kind))
            present.unfit[lifecycle.file].push_back(std::string(kind) + " " + row["name"].as<std::string>() +
                                                    " is no function of two rows of " + table->second.name);
    }
}

}  // namespace

void read_functions(pqxx::transaction_base& transaction, const std::vector<Lifecycle>& lifecycles, Present& present) {
    std::set<std::string> names;
    for (const Lifecycle& lifecycle : lifecycles)
        for (const bool guards : {true, false}) names.merge(names_of(lifecycle, guards));
    if (names.empty()) return;
    for (const auto& row : sql::run(transaction, name_statement, sql::text_array(names)))
        present.functions[row["name"].as<std::string>()] = row["qualified"].text_or_empty();
    std::set<std::string> qualified;
    for (const auto& [name, function] : present.functions) qualified.insert(function);
    present.function_facts = sql::run(transaction, facts_statement, sql::text_array(qualified))[0][0].as<std::string>();
    for (const Lifecycle& lifecycle : lifecycles)
        for (const bool guards : {true, false}) read_fit(transaction, lifecycle, guards, present);
}

std::optional<Json> calls_of(const Lifecycle& lifecycle, const Present& present) {
    if (lifecycle.unbound == "reject" && !missing_functions(lifecycle, present).empty()) return std::nullopt;
    Json all = Json::array();
    for (const core::Transition& transition : lifecycle.compiled.transitions()) {
        Json guards = Json::array(), effects = Json::array(), notes = transition.notes;
        for (const std::string& name : transition.guards) {
            const std::string function = found(present, name);
            function.empty() ? notes.push_back("[" + name + "]") : guards.push_back(function);
        }
        for (const std::string& name : transition.effects) {
            const std::string function = found(present, name);
            function.empty() ? notes.push_back("/ " + name) : effects.push_back(function);
        }
        all.push_back(Json::array({guards, effects, notes}));
    }
    return all;
}

std::vector<std::pair<std::string, core::Place>> missing_functions(const Lifecycle& lifecycle, const Present& present) {
    std::vector<std::pair<std::string, core::Place>> missing;
    std::set<std::string> seen;
    for (const core::Transition& transition : lifecycle.compiled.transitions())
        for (const auto* names : {&transition.guards, &transition.effects})
            for (const std::string& name : *names)
                if (found(present, name).empty() && seen.insert(name).second)
                    missing.emplace_back(name, transition.where);
    return missing;
}

}  // namespace pawl::cli
