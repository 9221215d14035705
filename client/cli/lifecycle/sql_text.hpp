// Pure C++; throws only bad_alloc. Values and names as SQL text, and notations of pawl's arguments in one normal form.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pawl::cli {

// A string literal that means the same whatever standard_conforming_strings is.
std::string literal(std::string_view text);

// A text of several lines, in dollar quotes that do not occur in it: $word$, or with a number behind the word.
std::string dollar_quoted(std::string_view text, const std::string& word = "mermaid");

// The name, in double quotes unless it is plain.
std::string identifier(std::string_view name);

// `name` or `schema.name` as SQL reads it, each part as identifier() writes it; nothing if it is no such name.
std::optional<std::string> relation_name(std::string_view text);

// An ORDER BY list of columns as pawl.set_claiming takes it: "priority desc, id"; nothing if it is none.
std::optional<std::string> claim_order(std::string_view text);

// How a log is partitioned, as pawl.enable_log takes it: "hash (id) partitions 8"; nothing if it is not valid.
std::optional<std::string> log_partition(std::string_view text);

}  // namespace pawl::cli
