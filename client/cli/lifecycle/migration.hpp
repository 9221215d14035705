// Pure C++; throws only bad_alloc. A plan as a file of a migration tool.
#pragma once

#include <string>

#include "lifecycle/plan.hpp"

namespace pawl::cli {

// format: psql, flyway, rails, django or alembic. after: the migration before, of django (app.name) and alembic; may be
// empty.
std::string migration_text(const Plan& plan, const std::string& format, const std::string& after);

}  // namespace pawl::cli
