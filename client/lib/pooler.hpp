// May throw. Finds out whether a connection keeps its session of the server, or a pooler gives each transaction
// another one.
#pragma once

#include <functional>
#include <string>

#include <pawl/connection.hpp>

namespace pawl {

// Names the session that answers: its process, and when its server began, because a pooler may have several servers.
inline constexpr const char* session_statement =
    "SELECT pg_catalog.concat(pg_catalog.pg_backend_pid(), ' ', "
    "pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time())::pg_catalog.int8)";

// As the public keeps_session. login: the process that libpq was told of. session: runs session_statement on the
// connection, alone.
bool keeps_session(const ConnectionSettings& settings, int login, const std::function<std::string()>& session);

// What PoolerBetween says of a role.
inline constexpr const char* role_setting = "the setting role";
inline constexpr const char* role_hint =
    "Log in as a role that becomes it by itself (ALTER ROLE ... SET role = ...), or connect to the server itself.";

// What a program logs.
inline constexpr const char* polls_behind_pooler =
    "a pooler in transaction mode is between this program and the server: it polls instead of waiting for "
    "notifications (with wake = false it does not look for a pooler)";

}  // namespace pawl
