// pawld: runs the duties of the installed extensions until it is told to end. It keeps no state: without a daemon,
// calling the same functions yourself gives the same result.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>

#include <pawl/errors.hpp>
#include <pawl/worker.hpp>

#include "api.hpp"
#include "auth.hpp"
#include "hang_up.hpp"
#include "lane.hpp"
#include "libpq.hpp"
#include "notify.hpp"
#include "pool.hpp"
#include "secrets.hpp"
#include "status_server.hpp"
#include "tended.hpp"

namespace {

using namespace pawl::daemon;
using pawl::SettingsError;

std::string slurp(const std::string& file) {
    std::ifstream in(file);
    if (!in) throw SettingsError("cannot read " + file);
    return {std::istreambuf_iterator<char>(in), {}};
}

struct Options {
    std::string config;
    std::map<std::string, std::string> flags;
    bool once = false;
    bool check = false;
    std::string print;  // toml or markdown
};

// The flag of a setting: --longest-poll-ms.
std::string flag_of(const std::string& name) {
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    return flag;
}

// The text of --help for a setting.
std::string help_of(const pawl::Setting& setting) {
    std::string range = setting.range + (setting.unit.empty() ? "" : " " + setting.unit);
    if (!range.empty()) range += "; ";
    return setting.description + " (" + range + "default " + setting.initial + ")";
}

void add_options(CLI::App& app, Options& options) {
    app.set_version_flag("--version", "pawld " PAWL_VERSION, "print the version and exit");
    app.add_option("-c,--config", options.config, "TOML file")->envname("PAWLD_CONFIG");
    for (const pawl::Setting& setting : settings_table().list({})) {
        const auto keep = [&options, name = setting.name](const std::string& value) { options.flags[name] = value; };
        app.add_option_function<std::string>(flag_of(setting.name), keep, help_of(setting))->group("Settings");
    }
    app.add_flag("--once", options.once, "do what there is to do now, then exit (for cron)");
    app.add_flag("--check", options.check, "read the settings, report what is wrong with them, and exit");
    app.add_option("--print", options.print,
                   "print the settings as an example file (toml) or a table (markdown), and exit")
        ->check(CLI::IsMember({"toml", "markdown"}));
}

// The connection of the HTTP API.
pawl::ConnectionSettings api_connection(const Settings& settings) {
    const bool own = !settings.api_database.empty();
    return {.target = own ? settings.api_database : settings.database,
            .application_name = "pawld api",
            .pooler = own ? settings.api_pooler : settings.pooler};
}

pawl::api::Tls tls_of(const Settings& settings) {
    return {settings.api_certificate, settings.api_key, settings.api_client_ca};
}

// What needs a session of its own is rejected behind a pooler in transaction mode.
void check_sessions(const Settings& settings) {
    using pawl::Pooler;
    if (settings.pooler == Pooler::transaction && !settings.role.empty())
        throw SettingsError(
            "role cannot be used with pooler = transaction, because the role would stay with a session of the pool; "
            "log in as a role that becomes it by itself (ALTER ROLE ... SET role = ...)");
    if (!settings.api.empty() && api_connection(settings).pooler == Pooler::transaction)
        throw SettingsError(
            "api cannot be used with pooler = transaction, because the HTTP API prepares statements; "
            "set api_database to the server itself, or to a pooler in session mode (api_pooler = session)");
}

Settings settings_of(const Options& options) {
    Settings settings;
    if (!options.config.empty()) read_toml(settings, slurp(options.config), options.config);
    settings_table().read_environment(settings, [](const char* name) -> const char* { return std::getenv(name); });
    for (const auto& [name, value] : options.flags) {
        if ((name == "database" || name == "api_database" || name == "broker") && pawl::has_password(value))
            throw SettingsError("every user of the machine can read a password in a flag: set " + name +
                                " in the environment or in the settings file" +
                                (name == "broker" ? "" : ", or use PGPASSFILE, PGSERVICE or PGPASSWORD"));
        settings_table().set(settings, name, value);
    }
    check_sessions(settings);
    try {
        pawl::check(settings.messages);
        pawl::check_target(settings.database);
        pawl::check_target(settings.api_database);
        pawl::api::check(tls_of(settings));
    } catch (const pawl::Error& problem) {
        throw SettingsError(problem.what());
    } catch (const std::invalid_argument& problem) {
        throw SettingsError(problem.what());
    }
    try {
        const pawl::api::Proxies proxies(settings.api_proxies);
    } catch (const std::invalid_argument& problem) {
        throw SettingsError(std::string("api_proxies: ") + problem.what());
    }
    return settings;
}

// The files that the settings name, for --check.
int check_files(const Settings& settings) {
    try {
        pawl::api::make_context(tls_of(settings));
        return 0;
    } catch (const std::runtime_error& problem) {
        throw SettingsError(problem.what());
    }
}

int run_once(const Settings& settings, const Log& log) {
    Metrics metrics;
    Lane scheduling("scheduling", Kind::scheduling, settings, log, metrics);
    Lane sql_steps("sql", Kind::sql_steps, settings, log, metrics);
    const pawl::StopOnSignals signals([&] { scheduling.stop(), sql_steps.stop(); });
    // steps make work for the scheduler, and the scheduler makes steps ready
    bool good = true;
    std::uint64_t before = 0;
    do {
        before = metrics.rows();
        good = scheduling.run_once() && (settings.sql_workers == 0 || sql_steps.run_once());
    } while (good && metrics.rows() > before);
    return good ? 0 : 1;
}

pawl::api::Settings api_settings(const Settings& settings) {
    pawl::api::Settings api{.address = settings.api,
                            .database = api_connection(settings),
                            .all_databases = settings.all_databases,
                            .login = settings.api_database,
                            .limits = {},
                            .tls = tls_of(settings)};
    api.connections = static_cast<std::size_t>(settings.api_connections);
    api.timeout = settings.api_timeout;
    api.limits.clients = static_cast<std::size_t>(settings.api_clients);
    api.failed_logins = settings.api_failed_logins;
    api.links = static_cast<std::size_t>(settings.api_links);
    api.hosts = settings.api_hosts;
    api.proxies = settings.api_proxies;
    api.limits.upload_bytes = static_cast<std::size_t>(settings.api_upload_mb) << 20;
    return api;
}

// Warns of a certificate that has expired or expires soon.
void check_expiry(const pawl::api::TlsContext& context, const Log& log) {
    if (!context) return;
    const auto expiry = pawl::api::expiry_of(context);
    const auto left = std::chrono::duration_cast<std::chrono::hours>(expiry - std::chrono::system_clock::now());
    const Log::Fields fields = {{"expires_at", std::chrono::system_clock::to_time_t(expiry)}};
    if (left.count() < 0)
        log.warn("the certificate of the API has expired", fields);
    else if (left < std::chrono::hours(14 * 24))
        log.warn("the certificate of the API expires soon", fields);
}

// What SIGHUP asks for. Settings are not read again.
void reload(std::optional<pawl::api::Api>& api, const Log& log) {
    if (!api || !api->tls()) return log.info("SIGHUP: there is no certificate to read again");
    try {
        api->reload_certificate();
        log.info("certificate read again");
        check_expiry(api->tls(), log);
    } catch (const std::exception& problem) {
        log.error("certificate not read again, the earlier one stays", {{"message", problem.what()}});
    }
}

void write_metrics(const pawl::api::Api& api, Exposition& out) {
    using Use = pawl::api::Use;
    const auto all = api.use();
    const auto family = [&](const char* name, const char* type, const char* help, auto value) {
        out.family(name, type, help);
        for (const auto& [database, use] : all) {
            Labels labels;
            if (!database.empty()) labels.emplace_back("database", database);
            value(use, labels);
        }
    };
    family("pawld_api_connections", "gauge", "Connections of the HTTP API to each database.",
           [&](const Use& use, Labels labels) {
               labels.emplace_back("state", "idle");
               out.sample(labels, static_cast<std::uint64_t>(use.idle));
               labels.back().second = "taken";
               out.sample(labels, static_cast<std::uint64_t>(use.taken));
           });
    family("pawld_api_connections_max", "gauge", "Limit of these connections.",
           [&](const Use& use, const Labels& labels) { out.sample(labels, static_cast<std::uint64_t>(use.max)); });
    const auto counter = [&](const char* name, const char* help, std::uint64_t Use::*count) {
        family(name, "counter", help, [&](const Use& use, const Labels& labels) { out.sample(labels, use.*count); });
    };
    counter("pawld_api_calls_total", "Calls of the database by the HTTP API, repetitions included.", &Use::calls);
    counter("pawld_api_repeats_total", "Calls that were repeated after a conflict with another transaction.",
            &Use::repeated);
    counter("pawld_api_pool_timeouts_total", "Requests that got no connection in time.", &Use::timeouts);
}

// Rejects a pooler that the settings do not name, before any session of it gets a role or a prepared statement. A
// database that is not available yet is waited for.
void check_poolers(const Settings& settings) {
    const auto check = [](const pawl::ConnectionSettings& connection, const char* what, const char* hint) {
        try {
            pawl::require_session(pawl::keeps_session(*pawl::connect(connection), connection), connection, what, hint);
        } catch (const pawl::SessionRequired&) {
            throw;
        } catch (const pawl::Error&) {
        }
    };
    if (!settings.role.empty()) check(connection_settings(settings, "pawld"), "the setting role", "Do not set role.");
    if (!settings.api.empty()) check(api_connection(settings), pawl::api::needs_session, pawl::api::session_hint);
}

void run(const Settings& settings, const Log& log) {
    const HangUp hang_up;
    check_poolers(settings);
    Metrics metrics;
    std::optional<Tended> one;
    std::optional<Fleet> all;
    if (settings.all_databases)
        all.emplace(settings, log, metrics);
    else
        one.emplace("", settings, log, metrics);
    const pawl::StopOnSignals signals([&] {
        notify_systemd("STOPPING=1");
        log.info("draining");
        metrics.drain();
        if (one) one->stop();
        if (all) all->stop();
    });
    const auto stuck_after = settings.stuck_after + settings.longest_poll;
    std::optional<pawl::api::Api> api;  // /metrics reads its numbers, so it is destroyed after that server
    std::optional<HttpServer> http;
    if (!settings.http.empty()) {
        http.emplace(settings.http, metrics, stuck_after);
        log.info("listening", {{"port", http->port()}});
    }
    if (!settings.api.empty()) {
        api.emplace(api_settings(settings), log,
                    pawl::api::Condition{
                        .alive = [&metrics, stuck_after](std::string& why) { return metrics.alive(stuck_after, why); },
                        .ready = [&metrics](std::string& why) { return metrics.ready(why); },
                        .database_ready =
                            [&metrics](const std::string& database, std::string& why) {
                                return database.empty() ? metrics.ready(why) : metrics.part_ready(database, why);
                            }});
        metrics.also([&api](Exposition& out) { write_metrics(*api, out); });
        log.info("serving the API", {{"port", api->port()}});
        check_expiry(api->tls(), log);
    }
    const std::jthread reloading = hang_up.listen([&api, &log] { reload(api, log); });
    // ready without a database: one that is down now may come back
    notify_systemd("READY=1");
    if (all) all->run();
    if (one) one->start(), one->wait();
    log.info("ended");
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("runs the duties of pawl and its packs: expired leases, timers, workflows");
    Options options;
    add_options(app, options);
    app.footer(
        "Each setting is also a key of the file (longest_poll_ms = 500) and a variable of the environment\n"
        "(PAWLD_LONGEST_POLL_MS=500). Flags win over the environment, and the environment over the file.\n"
        "Exit status: 0 ended as asked; 1 cannot run, or a duty failed with --once; 2 usage, or invalid settings.");
    app.failure_message([](const CLI::App* parsed, const CLI::Error& problem) {
        std::string text = problem.what();
        if (text.find("not expected") != std::string::npos) {
            text = "not expected:";
            for (const std::string& one : parsed->remaining()) text += " " + pawl::shown(one);
        }
        return "pawld: " + pawl::without_passwords(text) + "\npawld --help lists the options\n";
    });
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& problem) {
        return app.exit(problem) == 0 ? 0 : 2;
    }
    try {
        if (!options.print.empty()) {
            std::cout << (options.print == "toml" ? example_file()
                                                  : pawl::settings_as_markdown(settings_table().list({})));
            return 0;
        }
        const Settings settings = settings_of(options);
        if (options.check) return check_files(settings);
        const Log log(settings.log_format, settings.log_level);
        if (options.once) return run_once(settings, log);
        run(settings, log);
        return 0;
    } catch (const SettingsError& problem) {
        std::cerr << "pawld: " << pawl::without_passwords(problem.what()) << '\n';
        return 2;
    } catch (const std::exception& problem) {
        std::cerr << "pawld: " << pawl::without_passwords(problem.what()) << '\n';
        return 1;
    }
}
