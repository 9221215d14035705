// Pure C++; throws core::Error. How a diagram arrives: in a Markdown code block, with the line ends of any system.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pawl::core {

// Extracts a diagram from a Markdown code block (```mermaid, ~~~mermaid or, on some wikis, :::mermaid), and keeps its
// line numbers. Returns nothing if the text is not such a block. A block without an end reaches to the end of the text.
std::optional<std::string> inside_code_block(std::string_view text);

// Replaces \r\n and \r by \n.
std::string with_unix_ends(std::string_view text);

}  // namespace pawl::core
