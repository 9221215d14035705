// May throw (out of memory). Arrays as literals that the server reads.
#pragma once

#include <string>
#include <vector>

namespace pawl::sql {

template <typename Texts>
std::string text_array(const Texts& texts) {
    std::string literal = "{";
    for (const std::string& text : texts) {
        literal += literal.size() > 1 ? ",\"" : "\"";
        for (const char c : text) {
            if (c == '"' || c == '\\') literal += '\\';
            literal += c;
        }
        literal += '"';
    }
    return literal + "}";
}

// Keys of rows as a text array. A key of several columns is an array in it.
template <typename Keys>
std::string keys_array(const Keys& keys) {
    std::vector<std::string> texts;
    for (const auto& key : keys) texts.push_back(key.size() == 1 ? key[0] : text_array(key));
    return text_array(texts);
}

}  // namespace pawl::sql
