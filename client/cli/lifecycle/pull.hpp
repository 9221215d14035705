// May throw. Lifecycles of a database as files.
#pragma once

#include <string>
#include <vector>

#include "lifecycle/database.hpp"

namespace pawl::cli {

// The file of a machine: front matter with what differs from the defaults, and the diagram.
std::string lifecycle_text(const std::string& machine, const std::string& unbound, const std::string& diagram,
                           const std::vector<PresentBinding>& bindings);

// Writes a file for each machine of users, and returns their names. Throws FileError, before it writes anything, if one
// of them exists with another text.
std::vector<std::string> pull(pqxx::connection& connection, const std::string& folder);

}  // namespace pawl::cli
