// Does not throw. See array_literal.hpp.
#include "core/array_literal.hpp"

#include <cstddef>

namespace pawl::core {

namespace {

bool is_space(char c) noexcept {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

char* skip_space(char* at) noexcept {
    while (is_space(*at)) ++at;
    return at;
}

bool is_null(std::string_view item) noexcept {
    if (item.size() != 4) return false;
    constexpr std::string_view null = "null";
    for (std::size_t i = 0; i < 4; ++i)
        if ((item[i] | 0x20) != null[i]) return false;
    return true;
}

// An element in quotes; `at` is behind the first. Returns the place behind the last, null if there is none.
char* read_quoted(char* at, std::string_view* item) noexcept {
    char* const first = at;
    char* end = at;
    while (*at != '"') {
        if (*at == '\\') ++at;
        if (*at == '\0') return nullptr;
        *end++ = *at++;
    }
    *item = {first, static_cast<std::size_t>(end - first)};
    return at + 1;
}

char* read_bare(char* at, std::string_view* item) noexcept {
    char* const first = at;
    char* end = at;   // behind the last character that is written
    char* last = at;  // behind the last that is not white space
    while (*at != ',' && *at != '}') {
        if (*at == '\0' || *at == '{' || *at == '"') return nullptr;
        const bool escaped = *at == '\\';
        if (escaped && *++at == '\0') return nullptr;
        const bool counts = escaped || !is_space(*at);
        *end++ = *at++;
        if (counts) last = end;
    }
    *item = {first, static_cast<std::size_t>(last - first)};
    return item->empty() || is_null(*item) ? nullptr : at;
}

}  // namespace

int split_array_literal(char* literal, std::string_view* items, int room) noexcept {
    char* at = skip_space(literal);
    if (*at++ != '{') return malformed_array;
    at = skip_space(at);
    int n = 0;
    bool more = *at != '}';
    if (!more) ++at;
    while (more) {
        std::string_view item;
        at = *at == '"' ? read_quoted(at + 1, &item) : read_bare(at, &item);
        if (at == nullptr) return malformed_array;
        at = skip_space(at);
        if (*at != ',' && *at != '}') return malformed_array;
        more = *at == ',';
        // The character may be where the element ends, so it is read before the next is written.
        at = more ? skip_space(at + 1) : at + 1;
        if (n < room) items[n] = item;
        ++n;
    }
    return *skip_space(at) == '\0' ? n : malformed_array;
}

}  // namespace pawl::core
