// May throw. Differences of machines for people and programs.
#pragma once

#include <string>
#include <vector>

#include "core/diff.hpp"
#include "lifecycle/policies.hpp"

namespace pawl::cli {

enum class Colour { bold, faint, red, green, yellow };

// Colours for a terminal, or none.
struct Paint {
    bool colours;

    std::string operator()(const std::string& text, Colour colour) const;
};

// A line for each change: + added, ~ changed, - removed.
std::string changes_text(const std::vector<core::Change>& changes, const Paint& paint, const std::string& indent);

// As rows of pawl.diff.
Json changes_json(const std::vector<core::Change>& changes);

}  // namespace pawl::cli
