// May throw SettingsError.
#include "settings.hpp"

#include <toml++/toml.h>

namespace pawl::daemon {
namespace {

using M = MessageSettings;
using S = Settings;

std::string where(const std::string& file, const toml::node& node) {
    return file + ", line " + std::to_string(node.source().begin.line) + ": ";
}

// A value of a file as text. Throws SettingsError if it is not of the setting's type.
std::string text_of(const std::string& name, SettingType type, const toml::node& node) {
    if (type == SettingType::text)
        if (const auto text = node.value_exact<std::string>()) return *text;
    if (type == SettingType::number)
        if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
    if (type == SettingType::flag)
        if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
    if (const auto* list = node.as_array(); list && type == SettingType::list) {
        std::string joined;
        for (const auto& entry : *list) {
            const auto one = entry.value_exact<std::string>();
            if (!one || one->empty() || one->find(',') != std::string::npos)
                throw SettingsError(name + " must be a list of names, like [\"a\", \"b\"]");
            joined += (joined.empty() ? "" : ",") + *one;
        }
        return joined;
    }
    switch (type) {
        case SettingType::text:
            throw SettingsError(name + " must be text, in quotes");
        case SettingType::number:
            throw SettingsError(name + " must be a whole number");
        case SettingType::flag:
            throw SettingsError(name + " must be true or false");
        case SettingType::list:
            break;
    }
    throw SettingsError(name + " must be a list of names, like [\"a\", \"b\"]");
}

const SettingsTable<OwnDuty>& duty_table() {
    static const SettingsTable<OwnDuty> table(
        "", {{"name", member<&OwnDuty::name>, any(), "", "Name in logs and metrics"},
             {"sql", member<&OwnDuty::sql>, any(), "", "Statement that returns how much it did"},
             {"every_ms", member<&OwnDuty::every>, between(1, 86'400'000), "ms", "Time between two calls"}});
    return table;
}

OwnDuty own_duty(const toml::table& table) {
    OwnDuty duty;
    for (const auto& [key, node] : table) {
        const std::string name(key.str());
        if (name != "name" && name != "sql" && name != "every_ms")
            throw SettingsError("a duty has no setting \"" + name + "\"; it has name, sql, every_ms");
        duty_table().set(duty, name, text_of(name, duty_table().type(name), node));
    }
    if (duty.name.empty() || duty.sql.empty()) throw SettingsError("a duty needs a name and its sql");
    return duty;
}

}  // namespace

const SettingsTable<Settings>& settings_table() {
    static const SettingsTable<S> table(
        "PAWLD",
        {
            {"database", member<&S::database>, any(), "",
             "libpq connection string or URI; what it leaves out comes from PGHOST, PGDATABASE and so on"},
            {"all_databases", member<&S::all_databases>, any(), "",
             "Tend and serve every database that pawl.database names there, not only the one of database"},
            {"role", member<&S::role>, any(), "",
             "Role to act as after connecting; empty: that of the login; not behind a pooler in transaction mode"},
            {"pooler", member<&S::pooler>, one_of({"none", "session", "transaction"}), "",
             "Mode of the connection pooler between pawld and the server; with transaction pawld polls"},
            {"batch", member<&S::batch>, between(1, 10'000), "rows", "Rows that one transaction of a duty handles"},
            {"sql_workers", member<&S::sql_workers>, between(0, 64), "sessions",
             "Sessions that run steps, rows and tasks whose handlers are SQL functions; 0: none"},
            {"shortest_poll_ms", member<&S::shortest_poll>, between(1, 60'000), "ms",
             "First wait between two calls of a duty; doubled by every call that finds no work"},
            {"longest_poll_ms", member<&S::longest_poll>, between(1, 3'600'000), "ms",
             "Longest wait between two calls of a duty"},
            {"wake", member<&S::wake>, any(), "", "Wait for notifications; false: poll only"},
            {"skip", member<&S::skip>, any(), "",
             "Duties that this daemon does not run, like prune_events, reap, or reap jobs"},
            {"boards", member<&S::boards>, any(), "", "Job boards of pawl_saga to be a conductor of"},
            {"board_lease_ms", member<&S::board_lease>, between(100, 86'400'000), "ms",
             "Lease time of the boards' jobs; extended every third of it"},
            {"http", member<&S::http>, host_port(), "",
             "Address of /healthz, /readyz and /metrics, like 127.0.0.1:9187; port 0: any free one; empty: off"},
            {"gauges_ms", member<&S::gauges>, between(100, 3'600'000), "ms",
             "Time between two counts of queues, owners and timers for /metrics"},
            {"stuck_after_ms", member<&S::stuck_after>, between(100, 86'400'000), "ms",
             "/healthz reports a lane as stuck when one duty takes longer"},
            {"log_format", member<&S::log_format>, one_of({"text", "json"}), "", "Format of the log on standard error"},
            {"log_level", member<&S::log_level>, one_of({"debug", "info", "warn", "error"}), "",
             "Least severe level that is logged"},
            {"provider", member<&S::messages, &M::provider>, one_of({"database", "pgmq", "rabbitmq"}), "",
             "Queue provider that announces work to workers; with pgmq and rabbitmq pawld publishes messages"},
            {"broker", member<&S::messages, &M::broker>, any(), "",
             "Broker of rabbitmq, like amqp://user:password@host:5672/vhost, or amqps://"},
            {"broker_ca", member<&S::messages, &M::broker_ca>, any(), "",
             "PEM file of the authorities of an amqps broker's certificate; empty: the system's"},
            {"publish", member<&S::publish>, any(), "", "Tables whose claimable rows are published"},
            {"publisher", member<&S::publisher>, any(), "",
             "Consumer of the outbox that reads the rows to publish; any number of daemons share one"},
            {"api", member<&S::api>, host_port(), "",
             "Address of the HTTP API, like 127.0.0.1:9180; port 0: any free one; empty: off"},
            {"api_database", member<&S::api_database>, any(), "",
             "libpq connection string or URI of the HTTP API, which logs in as pawl_authenticator; its login is used "
             "for "
             "other databases too; empty: database"},
            {"api_pooler", member<&S::api_pooler>, one_of({"none", "session"}), "",
             "Mode of the connection pooler on the way to api_database"},
            {"api_connections", member<&S::api_connections>, between(1, 200), "connections",
             "Connections of the HTTP API to each database; half of them work at a time, the others while those are "
             "slow"},
            {"api_clients", member<&S::api_clients>, between(1, 10'000), "connections",
             "Connections of clients at a time, event streams included"},
            {"api_timeout_ms", member<&S::api_timeout>, between(10, 3'600'000), "ms", "Longest statement of a request"},
            {"api_certificate", member<&S::api_certificate>, any(), "",
             "PEM file of the server's certificate and its chain; with api_key the HTTP API speaks TLS"},
            {"api_key", member<&S::api_key>, any(), "", "PEM file of the key of api_certificate"},
            {"api_client_ca", member<&S::api_client_ca>, any(), "",
             "PEM file of the authority of client certificates, which are accepted in place of tokens"},
            {"api_failed_logins", member<&S::api_failed_logins>, between(1, 1'000'000), "logins",
             "Failed logins of an address within a minute, after which it must wait"},
            {"api_links", member<&S::api_links>, between(1, 100'000), "links",
             "Unused links to files at a time; each is valid for a minute"},
            {"api_hosts", member<&S::api_hosts>, any(), "",
             "Host names of the HTTP API; requests for other hosts are rejected; empty: any"},
            {"api_proxies", member<&S::api_proxies>, any(), "",
             "Addresses of proxies, like 10.0.0.1 or 10.0.0.0/8, whose X-Forwarded-For names the client"},
            {"api_upload_mb", member<&S::api_upload_mb>, between(1, 1'000'000), "MB", "Largest file of an upload"},
        });
    return table;
}

void read_toml(Settings& settings, const std::string& text, const std::string& file) {
    toml::table table;
    try {
        table = toml::parse(text, file);
    } catch (const toml::parse_error& problem) {
        throw SettingsError(file + ", line " + std::to_string(problem.source().begin.line) + ": " +
                            std::string(problem.description()));
    }
    for (const auto& [key, node] : table) {
        const std::string name(key.str());
        try {
            if (name != "duty") {
                settings_table().set(settings, name, text_of(name, settings_table().type(name), node));
                continue;
            }
            if (!node.is_array_of_tables()) throw SettingsError("duties are written as [[duty]]");
            for (const auto& duty : *node.as_array()) settings.duties.push_back(own_duty(*duty.as_table()));
        } catch (const SettingsError& problem) {
            throw SettingsError(where(file, node) + problem.what());
        }
    }
}

std::string example_file() {
    std::string file =
        "# Settings of pawld with their defaults. Each is also a variable of the environment (PAWLD_LONGEST_POLL_MS) "
        "and a\n"
        "# flag (--longest-poll-ms). Flags win over variables, and variables over this file.\n"
        "# pawld --print toml writes this file. Keep passwords out of flags, which every user of the machine can "
        "read.\n\n" +
        settings_as_toml(settings_table().list({})) + "# Duties of your own:\n# [[duty]]\n";
    for (const Setting& one : duty_table().list({.name = "close_old_carts", .sql = "select shop.close_old_carts()"}))
        file += "# " + one.name + " = " + one.initial + "  # " + one.description + "\n";
    return file;
}

ConnectionSettings connection_settings(const Settings& settings, const std::string& name) {
    return {.target = settings.database, .application_name = name, .role = settings.role, .pooler = settings.pooler};
}

}  // namespace pawl::daemon
