// May throw.
#include "database_text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include <iconv.h>

#include "utf8.hpp"

namespace pawl {
namespace {

const auto no_converter = reinterpret_cast<void*>(-1);

// The name that iconv has for an encoding of PostgreSQL; empty: every character exists in it, or it is unknown.
std::string iconv_name(std::string name) {
    static const std::map<std::string, std::string> latin{{"LATIN5", "9"},  {"LATIN6", "10"}, {"LATIN7", "13"},
                                                          {"LATIN8", "14"}, {"LATIN9", "15"}, {"LATIN10", "16"}};
    if (name == "UTF8" || name == "SQL_ASCII") return {};
    if (const auto found = latin.find(name); found != latin.end()) return "ISO-8859-" + found->second;
    if (name.rfind("LATIN", 0) == 0) return "ISO-8859-" + name.substr(5);
    if (name.rfind("WIN", 0) == 0) return "CP" + name.substr(3);
    if (name.rfind("KOI8", 0) == 0) return "KOI8-" + name.substr(4);
    std::replace(name.begin(), name.end(), '_', '-');
    return name.rfind("ISO-8859", 0) == 0 || name.rfind("EUC", 0) == 0 ? name : std::string();
}

bool converts(void* converter, std::string_view utf8) {
    std::array<char, 1024> out{};
    std::string text(utf8);
    char* from = text.data();
    iconv(converter, nullptr, nullptr, nullptr, nullptr);
    for (std::size_t left = text.size(); left > 0;) {
        char* to = out.data();
        std::size_t room = out.size();
        if (iconv(converter, &from, &left, &to, &room) == static_cast<std::size_t>(-1) && errno != E2BIG) return false;
    }
    return true;
}

std::string code_point(std::string_view character) {
    unsigned value =
        static_cast<unsigned char>(character[0]) & (character.size() == 1 ? 0x7FU : 0xFFU >> (character.size() + 1));
    for (std::size_t i = 1; i < character.size(); ++i)
        value = value << 6 | (static_cast<unsigned char>(character[i]) & 0x3FU);
    std::string digits;
    for (; value > 0; value >>= 4) digits.insert(digits.begin(), "0123456789ABCDEF"[value & 15]);
    return "\\u{" + digits + "}";
}

}  // namespace

DatabaseText::DatabaseText(const std::string& encoding) : encoding_(encoding), converter_(no_converter) {
    const std::string name = iconv_name(encoding);
    if (!name.empty()) converter_ = iconv_open(name.c_str(), "UTF-8");
}

DatabaseText::~DatabaseText() {
    if (converter_ != no_converter) iconv_close(converter_);
}

bool DatabaseText::holds(std::string_view utf8) const {
    const auto ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
    return converter_ == no_converter || std::all_of(utf8.begin(), utf8.end(), ascii) || converts(converter_, utf8);
}

std::string DatabaseText::printable(std::string_view utf8) const {
    std::string clean;
    for (std::size_t at = 0, length; at < utf8.size() && (length = character_at(utf8, at)) > 0; at += length) {
        const std::string_view character = utf8.substr(at, length);
        clean += holds(character) ? std::string(character) : code_point(character);
    }
    return clean;
}

}  // namespace pawl
