// Seam. Values in JSON objects that clients send, which must not raise an error if they are invalid.
#pragma once

#include "pg/texts.hpp"

namespace pawl::pg {

inline int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Reads what the type uuid reads: 32 digits, with or without a hyphen after each fourth, with or without braces.
inline bool read_uuid(std::string_view text, pg_uuid_t* uuid) {
    if (text.size() > 2 && text.front() == '{' && text.back() == '}') text = text.substr(1, text.size() - 2);
    std::size_t at = 0;
    for (int i = 0; i < UUID_LEN; ++i) {
        if (i > 0 && i % 2 == 0 && at < text.size() && text[at] == '-') ++at;
        if (at + 2 > text.size()) return false;
        const int high = hex_digit(text[at]);
        const int low = hex_digit(text[at + 1]);
        if (high < 0 || low < 0) return false;
        uuid->data[i] = static_cast<unsigned char>(high * 16 + low);
        at += 2;
    }
    return at == text.size();
}

// Finds a member of an object.
inline bool find_member(JsonbContainer* object, std::string_view key, JsonbValue* value) {
    return getKeyJsonValueFromContainer(object, key.data(), static_cast<int>(key.size()), value) != nullptr;
}

// A string, or a number as it is written; empty for any other value. May ereport.
inline std::string_view scalar_text(const JsonbValue& value) {
    if (value.type == jbvString) return {value.val.string.val, static_cast<std::size_t>(value.val.string.len)};
    if (value.type != jbvNumeric) return {};
    return DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));
}

// Reads a whole number of at most so many digits, without a sign.
inline bool read_digits(std::string_view text, std::size_t most, int64* number) {
    if (text.empty() || text.size() > most) return false;
    *number = 0;
    for (const char digit : text) {
        if (digit < '0' || digit > '9') return false;
        *number = *number * 10 + (digit - '0');
    }
    return true;
}

}  // namespace pawl::pg
