// A libFuzzer target: whatever the bytes are, reading is an answer or a core::Error, and printing what was read changes
// nothing.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/machine.hpp"
#include "same.hpp"

namespace {

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

void check_look_ups(const pawl::core::Machine& machine) {
    for (std::size_t i = 0; i < machine.transitions().size() && i < 200; ++i) {
        const pawl::core::Transition& transition = machine.transitions()[i];
        bool found = false;
        for (const auto each : machine.between(transition.from, transition.to))
            found = found || each == static_cast<std::int32_t>(i);
        require(found, "between() lists every transition");
        require(transition.event.empty() || machine.knows_event(transition.event), "knows_event() knows every event");
        require(machine.find(machine.states()[static_cast<std::size_t>(transition.to)].name) == transition.to,
                "transitions lead to atomic states");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    pawl::core::lint(text);
    pawl::core::Diagram diagram;
    try {
        diagram = pawl::core::read_mermaid(text);
    } catch (const pawl::core::Error&) {
        return 0;
    }
    const std::string print = pawl::core::write_mermaid(diagram);
    pawl::core::write_dot(diagram, "fuzz");
    try {
        const pawl::core::Diagram again = pawl::core::read_mermaid(print);
        const std::string difference = pawl::test::difference(diagram, again);
        if (!difference.empty()) {
            std::fprintf(stderr, "%s\n--- print:\n%s\n", difference.c_str(), print.c_str());
            require(false, "print and read give the same diagram");
        }
        require(pawl::core::write_mermaid(again) == print, "printing is canonical");
    } catch (const pawl::core::Error& error) {
        std::fprintf(stderr, "%d:%d %s\n--- print:\n%s\n", error.where.line, error.where.column, error.what(),
                     print.c_str());
        require(false, "what is printed can be read");
    }
    try {
        check_look_ups(pawl::core::compile(diagram));
    } catch (const pawl::core::Error&) {
        return 0;
    }
    return 0;
}
