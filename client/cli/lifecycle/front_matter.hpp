// May throw FileError. The front matter of a diagram: YAML between two lines `---` at the top, of which pawl reads the
// key `pawl`, and Mermaid its own keys.
#pragma once

#include "lifecycle/lifecycle.hpp"

namespace pawl::cli {

// Reads lifecycle.text into the other members, but for the diagram. Throws FileError with the place of what is wrong.
void read_front_matter(Lifecycle& lifecycle);

}  // namespace pawl::cli
