// pawld: runs the duties of what is installed in a database, until it is told to end. All it knows is in the database: with no
// daemon, calling the same functions by hand gives the same result.
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
#include "boards.hpp"
#include "http.hpp"
#include "lane.hpp"
#include "notify.hpp"
#include "pool.hpp"
#include "publisher.hpp"
#include "secrets.hpp"

namespace {

using namespace pawl::daemon;

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
};

void add_options(CLI::App& app, Options& options) {
    app.set_version_flag("--version", "pawld " PAWL_VERSION, "print the version and exit");
    app.add_option("-c,--config", options.config, "TOML file")->envname("PAWLD_CONFIG");
    for (const auto& [name, meaning] : setting_names()) {
        std::string flag = "--" + name;
        for (char& c : flag) c = c == '_' ? '-' : c;
        app.add_option_function<std::string>(flag, [&options, name = name](const std::string& value) { options.flags[name] = value; }, meaning);
    }
    app.add_flag("--once", options.once, "do what there is to do now, then end (for cron)");
    app.add_flag("--check", options.check, "read the settings, say what is wrong with them, and end");
}

Settings settings_of(const Options& options) {
    Settings settings;
    if (!options.config.empty()) read_toml(settings, slurp(options.config), options.config);
    read_environment(settings, [](const char* name) -> const char* { return std::getenv(name); });
    for (const auto& [name, value] : options.flags) {
        if ((name == "database" || name == "api_database" || name == "broker") && pawl::has_password(value))
            throw SettingsError("a password in a flag is seen by every user of the machine: give " + name + " in the environment or in the file of settings" +
                                (name == "broker" ? "" : ", or leave the password to PGPASSFILE, PGSERVICE or PGPASSWORD"));
        set(settings, name, value);
    }
    try {
        pawl::check(settings.messages);
        pawl::check_target(settings.database);
        pawl::check_target(settings.api_database);
        const pawl::api::Proxies proxies(settings.api_proxies);
    } catch (const pawl::Error& problem) {
        throw SettingsError(problem.what());
    } catch (const std::invalid_argument& problem) {
        throw SettingsError(std::string("api_proxies: ") + problem.what());
    }
    return settings;
}

int run_once(const Settings& settings, const Log& log) {
    Metrics metrics;
    Lane scheduling("scheduling", Kind::scheduling, settings, log, metrics);
    Lane sql_steps("sql", Kind::sql_steps, settings, log, metrics);
    const pawl::StopOnSignals signals([&] { scheduling.stop(), sql_steps.stop(); });
    // steps make work for the scheduler and the other way round
    bool good = true;
    std::uint64_t before = 0;
    do {
        before = metrics.rows();
        good = scheduling.run_once() && (settings.sql_workers == 0 || sql_steps.run_once());
    } while (good && metrics.rows() > before);
    return good ? 0 : 1;
}

pawl::api::Settings api_settings(const Settings& settings) {
    pawl::api::Settings api{.address = settings.api, .database = {}, .limits = {}, .tls = {settings.api_certificate, settings.api_key, settings.api_client_ca}};
    api.database.target = settings.api_database.empty() ? settings.database : settings.api_database;
    api.database.application_name = "pawld api";
    api.database.session_pooler = settings.session_pooler;
    api.connections = static_cast<std::size_t>(settings.api_connections);
    api.timeout = settings.api_timeout;
    api.limits.clients = static_cast<std::size_t>(settings.api_clients);
    api.failed_logins = settings.api_failed_logins;
    api.hosts = settings.api_hosts;
    api.proxies = settings.api_proxies;
    api.limits.upload_bytes = static_cast<std::size_t>(settings.api_upload_mb) << 20;
    return api;
}

void tell(const pawl::api::Use& use, Exposition& out) {
    out.family("pawld_api_connections", "gauge", "Connections of the HTTP API to the database.");
    out.sample({{"state", "idle"}}, static_cast<std::uint64_t>(use.idle));
    out.sample({{"state", "taken"}}, static_cast<std::uint64_t>(use.taken));
    out.family("pawld_api_connections_most", "gauge", "How many it may have.");
    out.sample({}, static_cast<std::uint64_t>(use.most));
    out.family("pawld_api_calls_total", "counter", "Calls of the database by the HTTP API, repetitions included.");
    out.sample({}, use.calls);
    out.family("pawld_api_repeats_total", "counter", "Calls that were made again because they had lost to another transaction.");
    out.sample({}, use.repeated);
    out.family("pawld_api_waited_in_vain_total", "counter", "Requests that got no connection because all were taken.");
    out.sample({}, use.refused);
}

// Nothing is told of a broker where there is none.
void tell(const std::optional<Publisher>& publisher, Exposition& out) {
    const PublisherCounts counts = publisher ? publisher->counts() : PublisherCounts();
    const auto one = [&](const char* name, const char* type, const char* help, std::uint64_t value) {
        out.family(name, type, help);
        if (publisher) out.sample({}, value);
    };
    one("pawld_messages_published_total", "counter", "Messages to workers that the broker has confirmed.", counts.published);
    one("pawld_messages_homeless_total", "counter", "Of these, for queues that no worker has asked for.", counts.homeless);
    one("pawld_broker_failures_total", "counter", "Connections to the broker that were lost or could not be made.", counts.failures);
    one("pawld_broker_connected", "gauge", "1 while the publisher has its broker.", counts.connected ? 1 : 0);
}

// Ends pawld at its start where a pooler does not let it work. A database that cannot be reached yet is waited for.
void check_poolers(const Settings& settings) {
    const auto tried = [](auto&& check) {
        try {
            check();
        } catch (const pawl::PoolerBetween&) {
            throw;
        } catch (const pawl::Error&) {
        }
    };
    if (!settings.role.empty()) tried([&] { pawl::connect(connection_settings(settings, "pawld")); });
    if (!settings.api.empty())
        tried([&] {
            const pawl::ConnectionSettings api = api_settings(settings).database;
            if (!pawl::keeps_session(*pawl::connect(api), api))
                throw pawl::PoolerBetween(pawl::api::needs_session, pawl::api::session_hint);
        });
}

void run(const Settings& settings, const Log& log) {
    check_poolers(settings);
    Metrics metrics;
    std::vector<std::unique_ptr<Lane>> lanes;
    lanes.push_back(std::make_unique<Lane>("scheduling", Kind::scheduling, settings, log, metrics));
    for (int i = 1; i <= settings.sql_workers; ++i)
        lanes.push_back(std::make_unique<Lane>("sql " + std::to_string(i), Kind::sql_steps, settings, log, metrics));
    std::vector<std::unique_ptr<Board>> boards;
    for (const std::string& name : settings.boards) boards.push_back(std::make_unique<Board>(name, settings, log, metrics));
    std::optional<Publisher> publisher;
    if (settings.messages.any()) publisher.emplace(settings, log, metrics);
    metrics.also([&publisher](Exposition& out) { tell(publisher, out); });
    const pawl::StopOnSignals signals([&] {
        notify_systemd("STOPPING=1");
        log.info("draining");
        metrics.drain();
        for (const auto& lane : lanes) lane->stop();
        for (const auto& board : boards) board->stop();
        if (publisher) publisher->stop();
    });
    const auto patience = settings.stuck_after + settings.longest_poll;
    std::optional<pawl::api::Api> api;  // its numbers are asked for by what follows, so it ends later
    std::optional<HttpServer> http;
    if (!settings.http.empty()) {
        http.emplace(settings.http, metrics, patience);
        log.info("listening", {{"port", http->port()}});
    }
    if (!settings.api.empty()) {
        api.emplace(api_settings(settings), log, pawl::api::Condition{.alive = [&metrics, patience](std::string& why) { return metrics.alive(patience, why); },
                                                                      .ready = [&metrics](std::string& why) { return metrics.ready(why); }});
        metrics.also([&api](Exposition& out) { tell(api->use(), out); });
        log.info("serving the API", {{"port", api->port()}});
    }
    // what pawld needs to be of use is a database that comes back, not one that is there at this moment
    notify_systemd("READY=1");
    std::vector<std::jthread> threads;
    for (const auto& lane : lanes) threads.emplace_back([&lane] { lane->run(); });
    for (const auto& board : boards) threads.emplace_back([&board] { board->run(); });
    if (publisher) threads.emplace_back([&publisher] { publisher->run(); });
    threads.clear();  // waits for them
    log.info("ended");
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("runs the duties of pawl and its packs: lost leases, timers, workflows");
    Options options;
    add_options(app, options);
    app.footer("Each setting may also stand in the file (longest_poll_ms = 500) or in the environment (PAWLD_LONGEST_POLL_MS=500); flags win over\n"
               "the environment, that over the file. pawld.toml.example has every default.\n"
               "Ends with 0: told to end, or --once with nothing wrong; 1: it cannot run, or a duty failed; 2: usage, or settings that make no sense.");
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
        const Settings settings = settings_of(options);
        if (options.check) return 0;
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
