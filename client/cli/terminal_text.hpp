// May throw (out of memory). Texts of others for a terminal, or for a comment in a file.
#pragma once

#include <string>
#include <string_view>

namespace pawl::cli {

// The text with invalid bytes and control characters other than line ends and tabs as \xhh, and without the power to
// move a terminal's cursor, rename its window or hide what follows. C1 controls are two bytes in UTF-8.
std::string without_controls(std::string_view text);

// The same in one line, for a comment or a line of a terminal: line ends and tabs as \xhh too, and as \uhhhh the
// separators of lines and paragraphs, U+2028 and U+2029.
std::string one_line(std::string_view text);

}  // namespace pawl::cli
