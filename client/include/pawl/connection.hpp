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

    // The role that the session acts as; empty: the one that logs in. PoolerBetween behind a pooler in transaction mode.
    std::string role = {};

    // A pooler in between is known to be in session mode: none is looked for.
    bool session_pooler = false;
};

// Connects. The connection never reconnects by itself: a session that lost its settings unnoticed would be another one.
// Throws ConnectionLost, PoolerBetween, or Error when the role is rejected.
std::unique_ptr<pqxx::connection> connect(const ConnectionSettings& settings);

// Whether the connection keeps its session of the server. False behind a pooler in transaction mode: nothing may be left
// in the session then, no role, LISTEN, session lock or prepared statement. settings: those of the connection.
// One round trip where the session is the one that the login named. Otherwise there is a pooler, and up to three more
// connections are opened for some milliseconds and their sessions compared. False is certain. True is not where several
// poolers share an address, because the connections may be spread over them.
// Throws ConnectionLost, also when no other connection could be opened.
bool keeps_session(pqxx::connection& connection, const ConnectionSettings& settings);

}  // namespace pawl
