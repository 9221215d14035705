// May throw SettingsError. The settings of pawld: from a TOML file, then the environment, then flags; the later source
// wins.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <pawl/connection.hpp>
#include <pawl/messages.hpp>
#include <pawl/settings.hpp>

#include "settings_table.hpp"

namespace pawl::daemon {

// A duty of the user's own ([[duty]]): a statement that returns how much it did, and optionally when to call it again
// (timestamptz).
struct OwnDuty {
    std::string name;
    std::string sql;
    std::chrono::milliseconds every{1'000};
};

// The members' initialisers are the defaults. settings.cpp has their table with units, ranges and descriptions.
struct Settings {
    std::string database;
    bool all_databases = false;
    std::string role;
    Pooler pooler = Pooler::none;
    int batch = 500;
    int sql_workers = 1;
    std::chrono::milliseconds shortest_poll{10};
    std::chrono::milliseconds longest_poll{1'000};
    bool wake = true;
    std::set<std::string> skip;
    std::set<std::string> boards;
    std::chrono::milliseconds board_lease{60'000};
    std::string http;
    std::chrono::milliseconds gauges{10'000};
    std::chrono::milliseconds stuck_after{300'000};
    std::string log_format = "text";
    std::string log_level = "info";
    MessageSettings messages;
    std::set<std::string> publish{"pawl_dag.steps"};
    std::string publisher = "publisher";
    std::string api;
    std::string api_database;
    Pooler api_pooler = Pooler::none;
    int api_connections = 10;
    int api_clients = 1'024;
    std::chrono::milliseconds api_timeout{30'000};
    std::string api_certificate;
    std::string api_key;
    std::string api_client_ca;
    int api_failed_logins = 10;
    int api_links = 1'000;
    std::set<std::string> api_hosts;
    std::set<std::string> api_proxies;
    int api_upload_mb = 4'096;
    std::vector<OwnDuty> duties;
};

// The table: all members but the duties.
const SettingsTable<Settings>& settings_table();

// A whole file. Problems name the file and the line.
void read_toml(Settings& settings, const std::string& text, const std::string& file);

// What `pawld --print toml` prints, the example file: every setting with its default, and how to write a duty.
std::string example_file();

// How the part of pawld with this application name connects.
ConnectionSettings connection_settings(const Settings& settings, const std::string& name);

}  // namespace pawl::daemon
