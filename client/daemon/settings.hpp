// May throw SettingsError. What pawld is told: by a TOML file, then by the environment, then by flags; the later wins.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <pawl/messages.hpp>

namespace pawl {
struct ConnectionSettings;
}

namespace pawl::daemon {

class SettingsError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// A duty of the user's own: a statement that returns how much it did, and optionally when to come back (timestamptz).
struct OwnDuty {
    std::string name;
    std::string sql;
    std::chrono::milliseconds every{1'000};
};

struct Settings {
    std::string database;                        // a libpq string or URI
    std::string role;                            // SET ROLE after connecting
    int batch = 500;                             // rows a transaction
    int sql_workers = 1;                         // sessions that run steps which are SQL functions; 0: none
    std::chrono::milliseconds shortest_poll{10};
    std::chrono::milliseconds longest_poll{1'000};
    bool wake = true;                            // wait for notifications; behind a pooler in transaction mode pawld polls
    bool session_pooler = false;                 // a pooler in between is known to be in session mode: none is looked for
    std::string http;                            // host:port for /healthz and /metrics; port 0: any free one; empty: off
    std::string api;                             // host:port of the HTTP API; port 0: any free one; empty: off
    std::string api_database;                    // how it logs in: as pawl_authenticator; empty: as the duties do
    int api_connections = 8;                     // to the database
    int api_clients = 1'024;                     // connections of clients, event streams included
    std::chrono::milliseconds api_timeout{30'000};  // of a statement
    std::string api_certificate, api_key, api_client_ca;  // PEM files; with the first two it speaks TLS
    int api_failed_logins = 10;                  // of an address within a minute; then it waits
    std::set<std::string> api_hosts;             // under which it is served; empty: any
    std::set<std::string> api_proxies;           // networks whose X-Forwarded-For counts
    int api_upload_mb = 4'096;                   // largest file
    std::chrono::milliseconds gauges{10'000};    // how often queues, owners and timers are counted for /metrics
    std::chrono::milliseconds stuck_after{300'000};  // a lane that does one thing for so long is stuck, says /healthz
    std::string log_format = "text";             // or json
    std::string log_level = "info";              // debug, info, warn or error
    std::set<std::string> boards;                // job boards to be a conductor of, by lease
    std::chrono::milliseconds board_lease{60'000};  // for how long their jobs are taken; extended at every third of it
    MessageSettings messages;                    // who tells workers of work: the database, or messages that pawld publishes
    std::set<std::string> publish{"pawl_dag.steps"};  // the tables whose claimable rows it publishes
    std::string publisher = "publisher";         // the consumer by which it reads the outbox; any number of daemons share one
    std::set<std::string> skip;                  // duties that are left to others
    std::vector<OwnDuty> duties;
};

// The names that `set` knows, with a sentence each: for --help and for errors.
const std::map<std::string, std::string>& setting_names();

// What a setting is in a file; everywhere else it is text.
enum class SettingType { text, number, flag, list };
SettingType type_of(const std::string& name);

// One setting from text, wherever it comes from.
void set(Settings& settings, const std::string& name, const std::string& value);

// A whole file. Every problem names the file and the line.
void read_toml(Settings& settings, const std::string& text, const std::string& file);

// PAWLD_<NAME>, for every setting; `get` returns null where there is none.
void read_environment(Settings& settings, const std::function<const char*(const char*)>& get);

// How a part of pawld that has this name connects.
ConnectionSettings connection_settings(const Settings& settings, const std::string& name);

}  // namespace pawl::daemon
