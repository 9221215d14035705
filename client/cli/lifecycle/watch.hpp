// May throw (memory). A file that is checked whenever it changes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/machine.hpp"
#include "lifecycle/policies.hpp"

namespace pawl::cli {

// What is wrong with a diagram at one moment.
struct WatchReport {
    std::string file;
    std::string problem;  // the file cannot be read, or its front matter is not valid; else empty
    std::vector<core::Finding> findings;
    std::size_t states = 0, transitions = 0;  // of a diagram without errors
    Json json;

    std::string text(bool colours) const;
};

class Watch {
public:
    explicit Watch(std::string file) : file_(std::move(file)) {}

    // A report if the file is another one than last time, or was not there; also the first time. Reads the text each
    // time, because an editor may write a file without a new time, or replace it by another.
    std::optional<WatchReport> look();

private:
    std::string file_;
    std::optional<std::string> last_;
};

}  // namespace pawl::cli
