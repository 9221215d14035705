// May throw. See database.hpp.
#include "lifecycle/database.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <openssl/evp.h>

#include "json_text.hpp"
#include "lifecycle/functions.hpp"
#include "lifecycle/present_settings.hpp"
#include "lifecycle/sql_text.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

constexpr const char* session_statement =
    "SELECT pg_catalog.current_database()::text AS database, current_user::text AS role,"
    "  coalesce(pg_catalog.bool_and(pg_catalog.has_function_privilege(p.oid, 'EXECUTE')), false) AS admin"
    "  FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'pawl'::pg_catalog.regnamespace"
    "   AND p.proname = ANY ('{define,enforce,upgrade,release,enable_log}')";

constexpr const char* machines_statement =
    "SELECT DISTINCT ON (m.machine) m.machine, m.version, m.diagram, m.owner,"
    "  coalesce((SELECT pg_catalog.pg_has_role(current_user, r.oid, 'USAGE') FROM pg_catalog.pg_roles r"
    "             WHERE r.rolname = m.owner), true) AS mine,"
    "  (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(t.guards, t.effects, t.notes) ORDER BY t.ordinal)"
    "     FROM pawl.machine_transition t WHERE t.machine = m.machine AND t.version = m.version) AS calls"
    "  FROM pawl.machine m WHERE m.machine = ANY ($1::text[]) ORDER BY m.machine, m.version DESC";

constexpr const char* table_statement =
    "SELECT c.oid::text AS oid, pg_catalog.format('%I.%I', n.nspname, c.relname) AS name, c.relkind::text AS kind,"
    "  r.rolname::text AS owner, pg_catalog.pg_has_role(current_user, c.relowner, 'USAGE') AS mine,"
    "  pg_catalog.has_table_privilege(c.oid, 'SELECT') AS readable,"
    "  pg_catalog.format_type(a.atttypid, a.atttypmod) AS column_type,"
    "  greatest(c.reltuples, 0)::bigint AS estimated_rows,"
    "  pg_catalog.jsonb_build_array(c.relrowsecurity, c.relforcerowsecurity,"
    "    (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(k.attname,"
    "              pg_catalog.format_type(k.atttypid, k.atttypmod), k.attnotnull, k.attgenerated) ORDER BY k.attnum)"
    "       FROM pg_catalog.pg_attribute k WHERE k.attrelid = c.oid AND k.attnum > 0 AND NOT k.attisdropped),"
    "    (SELECT pg_catalog.jsonb_agg(pg_catalog.to_jsonb(p) ORDER BY p.polname) FROM pg_catalog.pg_policy p"
    "      WHERE p.polrelid = c.oid))::text AS shape,"
    "  (SELECT pg_catalog.jsonb_agg(k.attname ORDER BY i.n) FROM pg_catalog.pg_index x"
    "     CROSS JOIN LATERAL pg_catalog.unnest(x.indkey::smallint[]) WITH ORDINALITY i(attnum, n)"
    "     JOIN pg_catalog.pg_attribute k ON k.attrelid = x.indrelid AND k.attnum = i.attnum"
    "    WHERE x.indrelid = c.oid AND x.indisprimary AND i.n <= x.indnkeyatts AND k.attname <> $2) AS default_key"
    "  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    "  JOIN pg_catalog.pg_roles r ON r.oid = c.relowner"
    "  LEFT JOIN pg_catalog.pg_attribute a"
    "    ON a.attrelid = c.oid AND a.attname = $2 AND a.attnum > 0 AND NOT a.attisdropped"
    " WHERE c.oid = pg_catalog.to_regclass($1)";

void read_session(pqxx::transaction_base& transaction, Present& present) {
    const auto rows = sql::run(transaction, session_statement);
    present.database = rows[0]["database"].as<std::string>();
    present.role = rows[0]["role"].as<std::string>();
    present.admin = rows[0]["admin"].as<bool>();
}

void read_machines(pqxx::transaction_base& transaction, const std::vector<Lifecycle>& lifecycles, Present& present) {
    std::vector<std::string> names;
    for (const Lifecycle& lifecycle : lifecycles) names.push_back(lifecycle.machine);
    for (const auto& row : sql::run(transaction, machines_statement, sql::text_array(names))) {
        PresentMachine& machine = present.machines[row["machine"].as<std::string>()];
        machine.version = row["version"].as<int>();
        machine.diagram = row["diagram"].as<std::string>();
        machine.owner = row["owner"].as<std::string>();
        machine.mine = row["mine"].as<bool>();
        machine.calls = row["calls"].is_null() ? Json::array() : parse_ordered_json(row["calls"].c_str());
    }
}

void read_tables(pqxx::transaction_base& transaction, const std::vector<Lifecycle>& lifecycles, Present& present) {
    for (const Lifecycle& lifecycle : lifecycles) {
        for (const TableEntry& entry : lifecycle.tables) {
            const auto rows = sql::run(transaction, table_statement, entry.relation, entry.column);
            if (rows.empty()) continue;
            PresentTable& table = present.tables[{entry.relation, entry.column}];
            table.oid = rows[0]["oid"].as<std::string>();
            table.name = rows[0]["name"].as<std::string>();
            table.kind = rows[0]["kind"].as<std::string>();
            table.owner = rows[0]["owner"].as<std::string>();
            table.mine = rows[0]["mine"].as<bool>();
            table.readable = rows[0]["readable"].as<bool>();
            table.column_type = rows[0]["column_type"].text_or_empty();
            table.estimated_rows = rows[0]["estimated_rows"].as<std::int64_t>();
            table.shape = rows[0]["shape"].as<std::string>();
            const auto key = rows[0]["default_key"];
            table.default_key = key.is_null() ? Json::array() : parse_ordered_json(key.c_str());
        }
    }
}

// Two names of the files can be those of one table.
void check_same_tables(const std::vector<Lifecycle>& lifecycles, const Present& present) {
    std::map<std::pair<std::string, std::string>, std::string> seen;
    for (const Lifecycle& lifecycle : lifecycles)
        for (const TableEntry& entry : lifecycle.tables) {
            const auto table = present.tables.find({entry.relation, entry.column});
            if (table == present.tables.end()) continue;
            const auto [other, is_new] = seen.emplace(std::pair(table->second.oid, entry.column), lifecycle.file);
            if (!is_new)
                throw FileError(
                    lifecycle.file, entry.where,
                    "column \"" + entry.column + "\" of table " + table->second.name + " is also in " + other->second);
        }
}

constexpr const char* relation_statement =
    "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c"
    "  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = pg_catalog.to_regclass($1)";

// A value as bindings have it, so that it can be compared with theirs.
Json value_of_server(pqxx::transaction_base& transaction, const Policy& policy, const std::string& given) {
    if (policy.shape == Shape::interval)
        return sql::run(transaction, "SELECT $1::interval::text", given)[0][0].as<std::string>();
    const auto rows = sql::run(transaction, relation_statement, given);
    if (rows.empty()) throw Error("22023", "table " + given + " does not exist");
    return rows[0][0].as<std::string>();
}

void read_values(pqxx::transaction_base& transaction, std::vector<Lifecycle>& lifecycles) {
    sql::run(transaction, "SET LOCAL intervalstyle = postgres");
    for (Lifecycle& lifecycle : lifecycles)
        for (TableEntry& entry : lifecycle.tables)
            for (const auto& [id, place] : entry.places) {
                const auto policy = std::find_if(policies().begin(), policies().end(),
                                                 [&](const Policy& each) { return each.id() == id; });
                if (policy == policies().end() ||
                    (policy->shape != Shape::interval && policy->shape != Shape::relation))
                    continue;
                Json& value = entry.settings.at(id);
                try {
                    value = value_of_server(transaction, *policy, value.get<std::string>());
                } catch (const Error& problem) {
                    if (!problem.sqlstate().starts_with("22")) throw;
                    throw FileError(lifecycle.file, place,
                                    "\"" + value.get<std::string>() + "\" is not valid for " + id,
                                    policy->shape == Shape::interval ? "for example: 30 days" : "the name of a table");
                }
            }
}

std::string sha256(const std::string& text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned length = 0;
    EVP_Digest(text.data(), text.size(), bytes.data(), &length, EVP_sha256(), nullptr);
    std::string hex;
    for (unsigned i = 0; i < length; ++i) {
        hex += "0123456789abcdef"[bytes[i] >> 4];
        hex += "0123456789abcdef"[bytes[i] & 15];
    }
    return hex;
}

Json facts_of(const PresentTable& table) {
    return Json::array(
        {table.oid, table.name, table.kind, table.owner, table.mine, table.readable, table.shape, table.default_key});
}

Json facts_of(const PresentBinding& binding) {
    Json settings = Json::object();
    for (const auto& [id, value] : binding.settings) settings[id] = value;
    return Json::array({binding.table, binding.column, binding.machine, binding.version, binding.diagram,
                        binding.of_extension, binding.mine, settings});
}

}  // namespace

const PresentBinding* Present::find(const std::string& oid, const std::string& column) const {
    const auto found = std::find_if(bindings.begin(), bindings.end(), [&](const PresentBinding& binding) {
        return binding.oid == oid && binding.column == column;
    });
    return found == bindings.end() ? nullptr : &*found;
}

std::string Present::fingerprint() const {
    Json facts = Json::array();
    facts.push_back(role);
    facts.push_back(admin);
    for (const auto& [name, machine] : machines)
        facts.push_back(
            Json::array({name, machine.version, machine.diagram, machine.calls, machine.owner, machine.mine}));
    for (const auto& [key, table] : tables) facts.push_back(Json::array({key.first, key.second, facts_of(table)}));
    for (const PresentBinding& binding : bindings) facts.push_back(facts_of(binding));
    for (const auto& [name, qualified] : functions) facts.push_back(Json::array({name, qualified}));
    facts.push_back(function_facts);
    for (const auto& [file, names] : unfit) facts.push_back(Json::array({file, names}));
    return sha256(facts.dump());
}

Present read_database(pqxx::transaction_base& transaction, std::vector<Lifecycle>& lifecycles) {
    Present present;
    read_session(transaction, present);
    read_values(transaction, lifecycles);
    read_machines(transaction, lifecycles, present);
    read_tables(transaction, lifecycles, present);
    check_same_tables(lifecycles, present);
    read_bindings(transaction, present);
    read_functions(transaction, lifecycles, present);
    return present;
}

std::vector<StateCount> count_other_states(pqxx::transaction_base& transaction, const std::string& table,
                                           const std::string& column, const std::vector<std::string>& known) {
    const std::string state = "pawl.value_text(t." + identifier(column) + ")";
    const auto rows = sql::run(transaction,
                               "SELECT " + state + " AS state, count(*) AS rows FROM " + table + " t WHERE (" + state +
                                   " = ANY ($1::text[])) IS NOT TRUE GROUP BY 1 ORDER BY 2 DESC, 1",
                               sql::text_array(known));
    std::vector<StateCount> counts;
    for (const auto& row : rows)
        counts.push_back({row["state"].is_null() ? std::nullopt : std::optional(row["state"].as<std::string>()),
                          row["rows"].as<std::int64_t>()});
    return counts;
}

}  // namespace pawl::cli
