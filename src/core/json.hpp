// Pure C++; throws core::Error. A JSON text as a tree; values keep the text they were written as, so that they can be
// passed on.
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
    std::string_view raw;             // points into the text that was read

    bool is(Kind other) const { return kind == other; }
    const Json* find(std::string_view key) const;  // null where the object has no such member
};

struct JsonMember {
    std::string name;
    Json value;
};

// The text must outlive what is returned. At most 200 levels deep.
Json read_json(std::string_view text);

// As a JSON string, with quotes.
std::string quote_json(std::string_view text);

}  // namespace pawl::core
