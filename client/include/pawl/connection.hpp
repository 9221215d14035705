// Connections as workers, conductors and pawld make them. A program with a pqxx::connection of its own needs nothing of
// this.
#pragma once

#include <memory>
#include <string>

#include <pqxx/pqxx>

namespace pawl {

/// What is between a program and the server.
enum class Pooler {
    none,         ///< Nothing: a connection is a session.
    session,      ///< A pooler in session mode: a connection keeps its session until it is closed.
    transaction,  ///< A pooler in transaction mode: each transaction may run in another session. Programs poll.
};

/// How to connect. Every member has a default, so that designated initialisers name only what differs.
struct ConnectionSettings {
    /// A libpq connection string or URI. What it leaves out comes from the environment (PGHOST, PGDATABASE and so on).
    std::string target = {};

    /// The session's name in pg_stat_activity.
    std::string application_name = "pawl";

    /// Seconds after which an attempt to connect fails; 0: libpq's own limit.
    int connect_timeout = 10;

    /// The role that the session acts as (SET ROLE); empty: the role of the login. Needs a session of its own.
    std::string role = {};

    /// The pooler between, as it is configured. Nothing is guessed: see keeps_session().
    Pooler pooler = Pooler::none;
};

/// Connects. The connection never reconnects by itself, because a new session would lack the settings of the lost one.
/// @throws ConnectionLost if the server cannot be reached
/// @throws SessionRequired if a role is set and the connection does not keep its session
/// @throws Error if the role is rejected, or the connection string cannot be read
std::unique_ptr<pqxx::connection> connect(const ConnectionSettings& settings);

/// Whether the connection keeps its session of the server. If not, nothing may be left in the session: no role, LISTEN,
/// session lock or prepared statement.
///
/// True for Pooler::session, false for Pooler::transaction. For Pooler::none one round trip compares the session that
/// answers with the one of the login; they differ only if a pooler is between that the settings do not name, and then
/// it returns false.
/// @param settings those that the connection was made with
/// @throws ConnectionLost
bool keeps_session(pqxx::connection& connection, const ConnectionSettings& settings);

/// Where workers and conductors log if they are not told where: writes `line` to standard error.
void log_to_standard_error(const std::string& line);

}  // namespace pawl
