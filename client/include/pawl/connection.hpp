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

    // The role that the session acts as; empty: the one that logs in. PoolerBetween behind a pooler of transactions.
    std::string role = {};

    // The pooler in between, if there is one, keeps a session of the server for each connection (pool_mode = session).
    // Otherwise any pooler is taken for one of transactions: the two cannot be told apart from here.
    bool session_pooler = false;
};

// Connects. The connection never reconnects by itself: a session that lost its settings unnoticed would be another one.
// Throws ConnectionLost, PoolerBetween, or Error when the role is rejected.
std::unique_ptr<pqxx::connection> connect(const ConnectionSettings& settings);

// Whether a pooler answers for the server: the session that runs a statement is not the one that the login named. One
// round trip. Behind a pooler of transactions nothing may be kept in the session: no role, notification, lock or plan.
bool is_pooled(pqxx::connection& connection);

}  // namespace pawl
