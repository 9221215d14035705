// A libFuzzer target: whatever the bytes are, a lifecycle file is read whole or rejected with its place, by FileError.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "lifecycle/lifecycle.hpp"
#include "utf8.hpp"

namespace {

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

// A place is in the file.
void check_place(const std::string& text, pawl::core::Place where) {
    require(where.line >= 0 && where.column >= 0, "lines and columns count from 1");
    std::size_t at = 0;
    for (int line = 1; line < where.line; ++line) {
        at = text.find('\n', at);
        require(at != std::string::npos, "a place has a line of the file");
        ++at;
    }
}

void check(const pawl::cli::Lifecycle& lifecycle) {
    require(!lifecycle.machine.empty(), "a machine has a name");
    require(lifecycle.text.find('\r') == std::string::npos, "lines end in \\n");
    check_place(lifecycle.text, lifecycle.machine_where);
    for (const auto& remap : lifecycle.remap) check_place(lifecycle.text, remap.where);
    for (const auto& table : lifecycle.tables) {
        require(!table.relation.empty() && !table.column.empty(), "an entry has a table and a column");
        for (const auto& policy : pawl::cli::policies())
            require(table.settings.contains(policy.id()), "an entry has a value for each policy");
        check_place(lifecycle.text, table.where);
        for (const auto& [policy, where] : table.places) check_place(lifecycle.text, where);
    }
    pawl::cli::check_together({lifecycle});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    try {
        check(pawl::cli::read_lifecycle("fuzzed.mmd", text));
    } catch (const pawl::cli::FileError& error) {
        const std::string message = error.what();
        require(message.starts_with("fuzzed.mmd:"), "an error begins with its file");
        require(pawl::is_utf8(message), "an error can be shown");
    }
    return 0;
}
