// May throw. See present_settings.hpp.
#include "lifecycle/present_settings.hpp"

#include <algorithm>

#include "json_text.hpp"
#include "lifecycle/sql_text.hpp"
#include "sql.hpp"

namespace pawl::cli {
namespace {

constexpr const char* statement =
    "SELECT b.relation::oid::text AS oid, pg_catalog.format('%I.%I', n.nspname, c.relname) AS name, "
    "b.state_column::text,"
    "  b.machine, b.version, m.diagram, b.extension IS NOT NULL AS of_extension,"
    "  pg_catalog.pg_has_role(current_user, c.relowner, 'USAGE') AS mine, pg_catalog.to_jsonb(b) AS binding,"
    "  (SELECT l.relname::text FROM pg_catalog.pg_class l WHERE l.oid = coalesce(b.history_view, b.history)) AS "
    "log_name,"
    "  CASE WHEN p.partrelid IS NOT NULL THEN pg_catalog.lower(pg_catalog.pg_get_partkeydef(b.history)) END AS "
    "partition,"
    "  (SELECT pg_catalog.count(*) FROM pg_catalog.pg_inherits i WHERE i.inhparent = b.history) AS partitions,"
    "  p.partstrat = 'h' AS by_hash,"
    "  (SELECT pg_catalog.format('%I.%I', an.nspname, ac.relname) FROM pg_catalog.pg_class ac"
    "     JOIN pg_catalog.pg_namespace an ON an.oid = ac.relnamespace WHERE ac.oid = b.locked_after) AS lock_after,"
    "  pg_catalog.to_jsonb(u) AS upkeep, pg_catalog.to_jsonb(a) AS audit,"
    "  (SELECT ac.relname::text FROM pg_catalog.pg_class ac WHERE ac.oid = a.audit) AS audit_name,"
    "  (SELECT au.keep::text FROM pawl.log_upkeep au WHERE au.log = a.audit) AS audit_keep,"
    "  (SELECT pg_catalog.jsonb_agg(k.attname ORDER BY i.n) FROM pg_catalog.pg_index x"
    "     CROSS JOIN LATERAL pg_catalog.unnest(x.indkey::smallint[]) WITH ORDINALITY i(attnum, n)"
    "     JOIN pg_catalog.pg_attribute k ON k.attrelid = x.indrelid AND k.attnum = i.attnum"
    "    WHERE x.indrelid = c.oid AND x.indisprimary AND i.n <= x.indnkeyatts AND k.attname <> b.state_column)"
    "    AS default_key"
    "  FROM pawl.binding b JOIN pg_catalog.pg_class c ON c.oid = b.relation"
    "  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    "  LEFT JOIN pawl.machine m ON m.machine = b.machine AND m.version = b.version"
    "  LEFT JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = b.history"
    "  LEFT JOIN pawl.log_upkeep u ON u.log = b.history"
    "  LEFT JOIN pawl.audit_binding a ON a.log = b.history"
    " ORDER BY 2, 3";

// Columns of pawl.binding that are policies as they are.
constexpr std::pair<const char*, const char*> plain_columns[] = {{"key", "key_columns"},
                                                                 {"on_delete", "on_delete"},
                                                                 {"always", "always"},
                                                                 {"errors", "errors"},
                                                                 {"validate", "validated"},
                                                                 {"queue.owner", "owner_column"},
                                                                 {"queue.lease", "lease_column"},
                                                                 {"queue.token", "token_column"},
                                                                 {"queue.attempts", "attempts_column"},
                                                                 {"queue.max_attempts", "max_attempts_column"},
                                                                 {"queue.queue", "queue_column"},
                                                                 {"timers.due", "due_column"},
                                                                 {"claiming.claim", "claim_events"},
                                                                 {"claiming.lease_time", "lease_time"},
                                                                 {"claiming.on_expiry", "on_expiry"},
                                                                 {"claiming.on_expiry_else", "on_expiry_else"},
                                                                 {"claiming.retry", "retry_events"},
                                                                 {"claiming.backoff", "backoff"},
                                                                 {"claiming.backoff_column", "backoff_column"},
                                                                 {"claiming.operator_events", "operator_events"},
                                                                 {"events.events", "events"},
                                                                 {"events.wake", "wake"},
                                                                 {"log_token", "log_token"},
                                                                 {"result_columns", "result_columns"},
                                                                 {"placing", "may_place"}};

Json claim_order_of(const Json& binding) {
    std::string text;
    const Json& columns = binding.at("claim_columns");
    for (std::size_t i = 0; i < columns.size(); ++i) {
        text += (i > 0 ? ", " : "") + identifier(columns[i].get<std::string>());
        if (binding.at("claim_descending").at(i).get<bool>()) text += " desc";
    }
    return text.empty() ? Json() : Json(text);
}

// In the log a column of the key can have another name.
Json log_partition_of(const sql::Row& row, const Json& binding) {
    if (row["partition"].is_null()) return nullptr;
    std::string text = row["partition"].as<std::string>();
    const Json& log_keys = binding.at("log_key_columns");
    for (std::size_t i = 0; i < log_keys.size(); ++i) {
        const std::string there = identifier(log_keys[i].get<std::string>());
        const auto at = text.find(there);
        if (at != std::string::npos && there.starts_with("subject_"))
            text.replace(at, there.size(), identifier(binding.at("key_columns").at(i).get<std::string>()));
    }
    if (row["by_hash"].as<bool>()) text += " partitions " + std::to_string(row["partitions"].as<std::int64_t>());
    return log_partition(text).value_or(text);
}

void read_log(const sql::Row& row, const Json& binding, Settings& settings) {
    if (binding.at("history").is_null()) return;
    settings["log"] = true;
    settings["log.most_recent"] = binding.at("most_recent");
    settings["log.hash_chain"] = binding.at("hash_chain");
    settings["log.log_name"] = row["log_name"].as<std::string>();
    settings["log.log_partition"] = log_partition_of(row, binding);
    if (row["upkeep"].is_null()) return;
    const Json upkeep = parse_ordered_json(row["upkeep"].c_str());
    for (const char* key : {"keep", "only_terminal", "period", "ahead"})
        settings[std::string("log.") + key] = upkeep.at(key);
}

void read_audit(const sql::Row& row, Settings& settings) {
    if (row["audit"].is_null()) return;
    const Json audit = parse_ordered_json(row["audit"].c_str());
    Json states = Json::object();
    for (const Json& state : audit.at("success_states")) states[state.get<std::string>()] = true;
    for (const Json& state : audit.at("failure_states")) states[state.get<std::string>()] = false;
    settings["audit"] = true;
    settings["audit.on_states"] = states;
    settings["audit.into_table"] = row["audit_name"].as<std::string>();
    settings["audit.parent"] = audit.at("parent_columns");
    if (!row["audit_keep"].is_null()) settings["audit.keep"] = row["audit_keep"].as<std::string>();
}

Settings settings_of(const sql::Row& row) {
    const Json binding = parse_ordered_json(row["binding"].c_str());
    Settings settings = initial_settings();
    for (const auto& [id, column] : plain_columns) settings[id] = binding.at(column);
    settings["claiming.claim_order"] = claim_order_of(binding);
    const Json& trace = binding.at("trace_columns");
    if (!trace.empty()) settings["trace.traceparent"] = trace[0];
    if (trace.size() > 1) settings["trace.tracestate"] = trace[1];
    if (!row["lock_after"].is_null()) settings["lock_after"] = row["lock_after"].as<std::string>();
    read_log(row, binding, settings);
    read_audit(row, settings);
    return settings;
}

}  // namespace

void read_bindings(pqxx::transaction_base& transaction, Present& present) {
    for (const auto& row : sql::run(transaction, statement)) {
        PresentBinding binding;
        binding.oid = row["oid"].as<std::string>();
        binding.table = row["name"].as<std::string>();
        binding.column = row["state_column"].as<std::string>();
        binding.machine = row["machine"].as<std::string>();
        binding.version = row["version"].as<int>();
        binding.diagram = row["diagram"].text_or_empty();
        binding.of_extension = row["of_extension"].as<bool>();
        binding.mine = row["mine"].as<bool>();
        const auto key = row["default_key"];
        binding.default_key = key.is_null() ? Json::array() : parse_ordered_json(key.c_str());
        if (!binding.of_extension) binding.settings = settings_of(row);
        present.bindings.push_back(std::move(binding));
    }
}

}  // namespace pawl::cli
