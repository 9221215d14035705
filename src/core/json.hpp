// Pure C++; throws core::Error. A JSON text as a tree. Values keep the text they were written as, so that it can be
// passed on unchanged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pawl::core {

struct JsonMember;

struct Json {
    enum class Kind { null, boolean, number, string, array, object };

    Kind kind = Kind::null;
    std::string string;  // of a string, unescaped
    std::vector<Json> items;
    std::vector<JsonMember> members;  // in the order in which they were written
    std::string_view raw;             // points into the text given to read_json

    bool is(Kind other) const { return kind == other; }
    const Json* find(std::string_view key) const;  // null where the object has no such member
};

struct JsonMember {
    std::string name;
    Json value;
};

// Reads a JSON text of at most 200 levels. The text must outlive the result.
Json read_json(std::string_view text);

// The text as a JSON string, with quotes.
std::string quote_json(std::string_view text);

}  // namespace pawl::core
