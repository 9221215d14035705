// Does not throw. Reads array literals such as {pay,"ship now"}, which settings hold.
#pragma once

#include <string_view>

namespace pawl::core {

inline constexpr int malformed_array = -1;

// Splits the literal of a one-dimensional array of texts, in place: items[i] points into it. Returns the number of
// elements, of which the first `room` are in items; malformed_array: it is none, or an element is NULL.
int split_array_literal(char* literal, std::string_view* items, int room) noexcept;

}  // namespace pawl::core
