// May throw. Sessions with the databases among which namespaces are divided.
#pragma once

#include <functional>
#include <string>

#include <pawl/connection.hpp>

#include "libpq.hpp"

namespace pawl::cli {

using Say = std::function<void(const std::string&)>;  // gets lines for the user

ConnectionSettings with_target(ConnectionSettings settings, const std::string& target);

// The database whose placements count, as a member knows it.
ConnectionSettings home_of(const ConnectionSettings& member, const Say& say);

// Connects, and sets what the work relies on, whatever the database, the role or PGOPTIONS have as defaults:
// READ COMMITTED, READ WRITE, and no limits of time, because rows that have left must arrive. A statement that waits
// for a lock says after some seconds which transactions have it.
LibpqSession member_session(const ConnectionSettings& settings, const Say& say);

// Waits for the transactions that are open in a database; they may have written what nothing has seen yet.
void wait_for_open_transactions(LibpqSession& session, const Say& say);

}  // namespace pawl::cli
