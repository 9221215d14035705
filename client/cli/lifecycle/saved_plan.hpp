// May throw. A plan as a file, with the diagrams that it was made of.
#pragma once

#include <string>
#include <vector>

#include "lifecycle/plan.hpp"

namespace pawl::cli {

struct SavedPlan {
    std::vector<Lifecycle> lifecycles;
    std::string fingerprint;
    std::vector<std::string> statements;  // compared with those that are planned anew, and never run
};

// Replaces the file at once or leaves it as it was. Throws FileError.
void save_plan(const std::string& file, const Plan& plan, const std::vector<Lifecycle>& lifecycles);

// Throws FileError if the file is no plan of this version.
SavedPlan load_plan(const std::string& file);

}  // namespace pawl::cli
