// May throw SettingsError.
#include "settings.hpp"

#include <charconv>
#include <sstream>

#include <toml++/toml.h>

#include <pawl/connection.hpp>

namespace pawl::daemon {
namespace {

int whole_number(const std::string& name, const std::string& value, int least, int most) {
    int number = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (problem != std::errc() || end != value.data() + value.size() || number < least || number > most)
        throw SettingsError(name + " must be a whole number from " + std::to_string(least) + " to " + std::to_string(most) + ", not \"" +
                            value + "\"");
    return number;
}

bool yes_or_no(const std::string& name, const std::string& value) {
    if (value == "true" || value == "on" || value == "yes" || value == "1") return true;
    if (value == "false" || value == "off" || value == "no" || value == "0") return false;
    throw SettingsError(name + " must be true or false, not \"" + value + "\"");
}

std::string one_of(const std::string& name, const std::string& value, const std::set<std::string>& choices) {
    if (choices.contains(value)) return value;
    std::string list;
    for (const std::string& choice : choices) list += (list.empty() ? "" : ", ") + choice;
    throw SettingsError(name + " must be one of " + list + ", not \"" + value + "\"");
}

std::string address(const std::string& name, const std::string& value) {
    const auto colon = value.rfind(':');
    if (value.empty()) return value;
    if (colon == std::string::npos || colon == 0) throw SettingsError(name + " must be host:port, not \"" + value + "\"");
    whole_number(name + ", its port,", value.substr(colon + 1), 0, 65'535);
    return value;
}

std::set<std::string> list_of(const std::string& value) {
    std::set<std::string> names;
    std::istringstream list(value);
    for (std::string name; std::getline(list, name, ',');)
        if (!name.empty()) names.insert(name);
    return names;
}

std::string where(const std::string& file, const toml::node& node) {
    return file + ", line " + std::to_string(node.source().begin.line) + ": ";
}

// A value of a file as text, if it is of the type that the setting has.
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
            if (!one || one->empty() || one->find(',') != std::string::npos) throw SettingsError(name + " must be a list of names, like [\"a\", \"b\"]");
            joined += (joined.empty() ? "" : ",") + *one;
        }
        return joined;
    }
    switch (type) {
        case SettingType::text: throw SettingsError(name + " must be text, in quotes");
        case SettingType::number: throw SettingsError(name + " must be a whole number");
        case SettingType::flag: throw SettingsError(name + " must be true or false");
        case SettingType::list: break;
    }
    throw SettingsError(name + " must be a list of names, like [\"a\", \"b\"]");
}

OwnDuty own_duty(const toml::table& table) {
    OwnDuty duty;
    for (const auto& [key, node] : table) {
        const std::string name(key.str());
        if (name == "name")
            duty.name = text_of(name, SettingType::text, node);
        else if (name == "sql")
            duty.sql = text_of(name, SettingType::text, node);
        else if (name == "every_ms")
            duty.every = std::chrono::milliseconds(whole_number(name, text_of(name, SettingType::number, node), 1, 86'400'000));
        else
            throw SettingsError("a duty has no setting \"" + name + "\"; it has name, sql, every_ms");
    }
    if (duty.name.empty() || duty.sql.empty()) throw SettingsError("a duty needs a name and its sql");
    return duty;
}

}  // namespace

const std::map<std::string, std::string>& setting_names() {
    static const std::map<std::string, std::string> names{
        {"database", "libpq connection string or URI; what it leaves out comes from PGHOST and its like"},
        {"role", "role to act as after connecting"},
        {"batch", "rows a transaction, 1 to 10000"},
        {"sql_workers", "sessions that run steps which are SQL functions, 0 to 64"},
        {"shortest_poll_ms", "the wait after a look for work that found some; without any it doubles"},
        {"longest_poll_ms", "the longest wait between two looks for work"},
        {"wake", "wait for notifications; false: poll only, and look for no pooler"},
        {"session_pooler", "a pooler in between is known to be in session mode: none is looked for"},
        {"http", "host:port of /healthz and /metrics; port 0: any free one"},
        {"api", "host:port of the HTTP API; port 0: any free one"},
        {"api_database", "libpq connection string or URI of the HTTP API, which logs in as pawl_authenticator; empty: that of the duties"},
        {"api_connections", "connections of the HTTP API to the database, 1 to 200"},
        {"api_clients", "connections of clients at a time, 1 to 10000"},
        {"api_timeout_ms", "longest statement of a request"},
        {"api_certificate", "PEM file of the server's certificate and its chain: the HTTP API speaks TLS"},
        {"api_key", "PEM file of the key of api_certificate"},
        {"api_client_ca", "PEM file of the authority of clients' certificates"},
        {"api_failed_logins", "failed logins of an address within a minute, after which it waits"},
        {"api_hosts", "names under which the HTTP API is served, comma separated; a request for another host is rejected; empty: any"},
        {"api_proxies", "addresses of proxies (10.0.0.1, 10.0.0.0/8) whose X-Forwarded-For says who a client is, comma separated"},
        {"api_upload_mb", "largest file of an upload in megabytes"},
        {"gauges_ms", "how often queues, owners and timers are counted for /metrics"},
        {"stuck_after_ms", "a lane that does one thing for so long is stuck, says /healthz"},
        {"log_format", "text or json"},
        {"log_level", "debug, info, warn or error"},
        {"boards", "job boards of pawl_saga to be a conductor of, comma separated"},
        {"board_lease_ms", "for how long the jobs of boards are taken; extended at every third of it"},
        {"provider", "who tells workers that there is work: database, pgmq or rabbitmq; with the latter two pawld publishes messages"},
        {"broker", "where rabbitmq is: amqp://user:password@host:5672/vhost, or amqps://"},
        {"broker_ca", "PEM file of the authorities that an amqps broker is checked against; empty: the system's"},
        {"publish", "tables whose claimable rows are published, comma separated"},
        {"publisher", "consumer of the outbox by which the rows to publish are read"},
        {"skip", "duties to leave to others, comma separated: reap, fire_due, orchestrate, ..."},
    };
    return names;
}

SettingType type_of(const std::string& name) {
    static const std::set<std::string> lists{"api_hosts", "api_proxies", "boards", "publish", "skip"}, flags{"session_pooler", "wake"},
        numbers{"api_clients", "api_connections", "api_failed_logins", "api_timeout_ms", "api_upload_mb", "batch", "board_lease_ms", "gauges_ms", "longest_poll_ms", "shortest_poll_ms", "sql_workers",
                "stuck_after_ms"};
    return lists.contains(name) ? SettingType::list : flags.contains(name) ? SettingType::flag : numbers.contains(name) ? SettingType::number : SettingType::text;
}

void set(Settings& settings, const std::string& name, const std::string& value) {
    if (name == "database")
        settings.database = value;
    else if (name == "role")
        settings.role = value;
    else if (name == "batch")
        settings.batch = whole_number(name, value, 1, 10'000);
    else if (name == "sql_workers")
        settings.sql_workers = whole_number(name, value, 0, 64);
    else if (name == "shortest_poll_ms")
        settings.shortest_poll = std::chrono::milliseconds(whole_number(name, value, 1, 60'000));
    else if (name == "longest_poll_ms")
        settings.longest_poll = std::chrono::milliseconds(whole_number(name, value, 1, 3'600'000));
    else if (name == "wake")
        settings.wake = yes_or_no(name, value);
    else if (name == "session_pooler")
        settings.session_pooler = yes_or_no(name, value);
    else if (name == "http")
        settings.http = address(name, value);
    else if (name == "api")
        settings.api = address(name, value);
    else if (name == "api_database")
        settings.api_database = value;
    else if (name == "api_connections")
        settings.api_connections = whole_number(name, value, 1, 200);
    else if (name == "api_clients")
        settings.api_clients = whole_number(name, value, 1, 10'000);
    else if (name == "api_timeout_ms")
        settings.api_timeout = std::chrono::milliseconds(whole_number(name, value, 10, 3'600'000));
    else if (name == "api_certificate")
        settings.api_certificate = value;
    else if (name == "api_key")
        settings.api_key = value;
    else if (name == "api_client_ca")
        settings.api_client_ca = value;
    else if (name == "api_failed_logins")
        settings.api_failed_logins = whole_number(name, value, 1, 1'000'000);
    else if (name == "api_hosts")
        settings.api_hosts = list_of(value);
    else if (name == "api_proxies")
        settings.api_proxies = list_of(value);
    else if (name == "api_upload_mb")
        settings.api_upload_mb = whole_number(name, value, 1, 1'000'000);
    else if (name == "gauges_ms")
        settings.gauges = std::chrono::milliseconds(whole_number(name, value, 100, 3'600'000));
    else if (name == "stuck_after_ms")
        settings.stuck_after = std::chrono::milliseconds(whole_number(name, value, 100, 86'400'000));
    else if (name == "log_format")
        settings.log_format = one_of(name, value, {"text", "json"});
    else if (name == "log_level")
        settings.log_level = one_of(name, value, {"debug", "info", "warn", "error"});
    else if (name == "boards")
        settings.boards = list_of(value);
    else if (name == "board_lease_ms")
        settings.board_lease = std::chrono::milliseconds(whole_number(name, value, 100, 86'400'000));
    else if (name == "provider")
        settings.messages.provider = one_of(name, value, {"database", "pgmq", "rabbitmq"});
    else if (name == "broker")
        settings.messages.broker = value;
    else if (name == "broker_ca")
        settings.messages.broker_ca = value;
    else if (name == "publish")
        settings.publish = list_of(value);
    else if (name == "publisher")
        settings.publisher = value;
    else if (name == "skip")
        settings.skip = list_of(value);
    else {
        std::string known;
        for (const auto& [one, meaning] : setting_names()) known += (known.empty() ? "" : ", ") + one;
        throw SettingsError("no setting \"" + name + "\"; there are " + known);
    }
}

void read_toml(Settings& settings, const std::string& text, const std::string& file) {
    toml::table table;
    try {
        table = toml::parse(text, file);
    } catch (const toml::parse_error& problem) {
        throw SettingsError(file + ", line " + std::to_string(problem.source().begin.line) + ": " + std::string(problem.description()));
    }
    for (const auto& [key, node] : table) {
        const std::string name(key.str());
        try {
            if (name != "duty") {
                if (!setting_names().contains(name)) set(settings, name, "");  // says which there are
                set(settings, name, text_of(name, type_of(name), node));
                continue;
            }
            if (!node.is_array_of_tables()) throw SettingsError("duties are written as [[duty]]");
            for (const auto& duty : *node.as_array()) settings.duties.push_back(own_duty(*duty.as_table()));
        } catch (const SettingsError& problem) {
            throw SettingsError(where(file, node) + problem.what());
        }
    }
}

void read_environment(Settings& settings, const std::function<const char*(const char*)>& get) {
    for (const auto& [name, meaning] : setting_names()) {
        std::string variable = "PAWLD_" + name;
        for (char& c : variable) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
        if (const char* value = get(variable.c_str())) {
            try {
                set(settings, name, value);
            } catch (const SettingsError& problem) {
                throw SettingsError(variable + ": " + problem.what());
            }
        }
    }
}

ConnectionSettings connection_settings(const Settings& settings, const std::string& name) {
    return {.target = settings.database,
            .application_name = name,
            .role = settings.role,
            .session_pooler = settings.session_pooler};
}

}  // namespace pawl::daemon
