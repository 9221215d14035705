// Pure C++; throws nothing. Tells by its SQLSTATE whether work that failed is worth repeating, for the server and for
// clients.
#ifndef PAWL_CORE_TRANSIENT_HPP  // the client library has a copy
#define PAWL_CORE_TRANSIENT_HPP

#include <array>
#include <cstddef>
#include <string_view>

namespace pawl::core {

// When the same transaction may be repeated: never, at once, or later, because the server needs time.
enum class Repeat { never, at_once, later };

struct Transient {
    std::string_view beginning;
    Repeat repeat;
    std::string_view meaning;
};

#define PAWL_TRANSIENT(beginning, repeat, meaning) Transient{beginning, Repeat::repeat, meaning},
inline constexpr std::array transients{
#include "transient.def"
};
#undef PAWL_TRANSIENT

constexpr Repeat repeat_of(std::string_view sqlstate) noexcept {
    Repeat repeat = Repeat::never;
    std::size_t longest = 0;
    for (const Transient& each : transients) {
        if (each.beginning.size() < longest || !sqlstate.starts_with(each.beginning)) continue;
        repeat = each.repeat;
        longest = each.beginning.size();
    }
    return sqlstate.size() == 5 ? repeat : Repeat::never;
}

constexpr bool is_transient(std::string_view sqlstate) noexcept {
    return repeat_of(sqlstate) != Repeat::never;
}

}  // namespace pawl::core

#endif
