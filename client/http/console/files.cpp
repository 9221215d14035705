// Does not throw. The files themselves, taken in by the assembler: the compiler would need seconds to read them as
// numbers.
#include <cstddef>
#include <iterator>

#include "console.hpp"

#define PAWL_CONSOLE_FILE(n, name, type, tag, gzip, immutable, part)                                       \
    asm(".pushsection .rodata\n.hidden pawl_console_" #n "\n.global pawl_console_" #n "\npawl_console_" #n \
        ":\n.incbin \"" part "\"\n.hidden pawl_console_end_" #n "\n.global pawl_console_end_" #n           \
        "\npawl_console_end_" #n ":\n.byte 0\n.popsection\n");                                             \
    extern "C" __attribute__((visibility("hidden"))) const char pawl_console_##n[], pawl_console_end_##n[];
#include "console_files.inc"
#undef PAWL_CONSOLE_FILE

namespace pawl {
namespace {

struct Entry {
    std::string_view name, type, tag;
    bool gzip, immutable;
    const char *begin, *end;
};

const Entry entries[] = {
#define PAWL_CONSOLE_FILE(n, name, type, tag, gzip, immutable, part) \
    {name, type, tag, gzip, immutable, pawl_console_##n, pawl_console_end_##n},
#include "console_files.inc"
#undef PAWL_CONSOLE_FILE
    {{}, {}, {}, false, false, nullptr, nullptr}};

constexpr std::size_t number = std::size(entries) - 1;

}  // namespace

const ConsoleFile* console_file(std::string_view name) noexcept {
    static ConsoleFile files[number + 1];
    static const bool filled = [] {
        for (std::size_t i = 0; i < number; ++i) {
            const Entry& e = entries[i];
            files[i] = {e.name, e.type,      e.tag,
                        e.gzip, e.immutable, {e.begin, static_cast<std::size_t>(e.end - e.begin)}};
        }
        return true;
    }();
    static_cast<void>(filled);
    for (std::size_t i = 0; i < number; ++i)
        if (files[i].name == name) return &files[i];
    return nullptr;
}

bool has_console() noexcept {
    return number > 0;
}

}  // namespace pawl
