// Pure C++; throws nothing. The SQLSTATE codes of class PW, generated from sqlstate.def for servers and clients alike.
#pragma once

#include <array>
#include <string_view>

namespace pawl::core::sqlstate {

#define PAWL_SQLSTATE(code, name, meaning) inline constexpr std::string_view name = code;
#include "sqlstate.def"
#undef PAWL_SQLSTATE

struct Entry {
    std::string_view code;
    std::string_view name;
    std::string_view meaning;
};

#define PAWL_SQLSTATE(code, name, meaning) Entry{code, #name, meaning},
inline constexpr std::array all{
#include "sqlstate.def"
};
#undef PAWL_SQLSTATE

// The entry of a code; null if the code is not of class PW.
constexpr const Entry* find(std::string_view code) noexcept {
    for (const Entry& entry : all) {
        if (entry.code == code) return &entry;
    }
    return nullptr;
}

}  // namespace pawl::core::sqlstate
