// Connections as the worker and the daemon make them. Who has a pqxx::connection of his own needs nothing of this.
#pragma once

#include <memory>
#include <string>

#include <pqxx/pqxx>

namespace pawl {

struct ConnectionSettings {
    // A libpq connection string or URI; what it leaves out comes from the environment (PGHOST, PGDATABASE, ...).
    std::string target = {};

    // What pg_stat_activity calls the session.
    std::string application_name = "pawl";

    // Seconds after which an attempt to connect is given up; 0: libpq's own patience.
    int connect_timeout = 10;

    // The role that the session acts as; empty: the one that logs in.
    std::string role = {};
};

// Connects. The connection never reconnects by itself: a session that lost its settings unnoticed would be another one.
// Throws ConnectionLost, or Error when the role is refused.
std::unique_ptr<pqxx::connection> connect(const ConnectionSettings& settings);

}  // namespace pawl
