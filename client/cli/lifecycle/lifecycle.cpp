// May throw FileError. See lifecycle.hpp.
#include "lifecycle/lifecycle.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lifecycle/front_matter.hpp"
#include "terminal_text.hpp"
#include "utf8.hpp"

namespace pawl::cli {
namespace {

constexpr std::uintmax_t largest_file = 4 * 1024 * 1024;  // as pawl.define has it

std::string with_unix_ends(std::string text) {
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
        result += text[i] == '\r' ? '\n' : text[i];
    }
    return result;
}

void check_remap(const Lifecycle& lifecycle) {
    for (const Remap& each : lifecycle.remap) {
        if (lifecycle.compiled.find(each.from) != core::no_state)
            throw FileError(lifecycle.file, each.where, "state \"" + each.from + "\" of remap is still in the diagram",
                            "remap is for rows in states that the diagram has no longer");
        if (lifecycle.compiled.find(each.to) == core::no_state)
            throw FileError(lifecycle.file, each.where, "the diagram has no state \"" + each.to + "\" to remap to");
    }
}

void check_names(const Lifecycle& lifecycle, const TableEntry& table, const Policy& policy, const Json& value) {
    const auto fail = [&](const std::string& what, const std::string& name) {
        throw FileError(lifecycle.file, table.places.at(policy.id()),
                        "the diagram has no " + what + " \"" + name + "\", which " + policy.id() + " names");
    };
    if (policy.shape == Shape::events)
        for (const Json& event : value)
            if (!lifecycle.compiled.knows_event(event.get<std::string>())) fail("event", event.get<std::string>());
    if ((policy.key == "on_expiry" || policy.key == "on_expiry_else") &&
        !lifecycle.compiled.knows_event(value.get<std::string>()))
        fail("event", value.get<std::string>());
    if (policy.shape == Shape::results)
        for (const auto& [state, success] : value.items())
            if (lifecycle.compiled.find(state) == core::no_state) fail("state", state);
}

}  // namespace

std::string located(const std::string& file, core::Place where) {
    if (where.line == 0) return file + ": ";
    return file + ":" + std::to_string(where.line) + ":" + std::to_string(where.column) + ": ";
}

FileError::FileError(const std::string& file, core::Place where, const std::string& message, const std::string& hint)
    : std::runtime_error(located(file, where) + message + (hint.empty() ? "" : "\n    hint: " + hint)) {}

std::vector<std::string> atomic_states(const core::Machine& machine) {
    std::vector<std::string> names;
    for (const core::State& state : machine.states())
        if (!state.composite && state.kind == core::StateKind::state) names.push_back(state.name);
    return names;
}

std::string text_of_file(const std::string& file) {
    std::error_code problem;
    const auto status = std::filesystem::status(file, problem);
    if (problem || !std::filesystem::is_regular_file(status))
        throw FileError(file, {},
                        problem                           ? problem.message()
                        : std::filesystem::exists(status) ? "is not a regular file"
                                                          : "there is no such file");
    if (std::filesystem::file_size(file, problem) > largest_file) throw FileError(file, {}, "is larger than 4 MB");
    errno = 0;
    std::ifstream in(file, std::ios::binary);
    std::string text;
    if (in) text.assign(std::istreambuf_iterator<char>(in), {});
    if (!in) throw FileError(file, {}, errno != 0 ? std::strerror(errno) : "cannot be read");
    return text;
}

Lifecycle read_lifecycle(const std::string& file, std::string text) {
    Lifecycle lifecycle;
    lifecycle.file = file;
    if (!is_utf8(text)) throw FileError(file, {}, "is not UTF-8, or contains a null character");
    lifecycle.text = with_unix_ends(std::move(text));
    lifecycle.machine = std::filesystem::path(file).stem().string();
    read_front_matter(lifecycle);
    if (one_line(lifecycle.machine) != lifecycle.machine)
        throw FileError(file, lifecycle.machine_where, "the name of a machine must not contain control characters");
    try {
        lifecycle.diagram = core::read_mermaid(lifecycle.text);
        lifecycle.compiled = core::compile(lifecycle.diagram);
    } catch (const core::Error& problem) {
        throw FileError(file, problem.where, problem.what(), problem.hint);
    }
    check_remap(lifecycle);
    for (const TableEntry& table : lifecycle.tables)
        for (const Policy& policy : policies())
            if (const Json& value = table.settings.at(policy.id()); table.places.contains(policy.id()))
                check_names(lifecycle, table, policy, value);
    return lifecycle;
}

std::vector<Lifecycle> read_folder(const std::string& folder) {
    std::error_code problem;
    std::vector<std::string> files;
    for (std::filesystem::directory_iterator entry(folder, problem), end; !problem && entry != end;
         entry.increment(problem)) {
        const auto& path = entry->path();
        if (path.extension() == ".mmd" && !path.filename().string().starts_with('.') && !entry->is_directory())
            files.push_back(path.string());
    }
    if (problem) throw FileError(folder, {}, problem.message());
    if (files.empty())
        throw FileError(folder, {}, "has no file *.mmd",
                        "write a diagram with the front matter of docs/lifecycle-files.md");
    std::sort(files.begin(), files.end());
    std::vector<Lifecycle> lifecycles;
    std::string problems;
    for (const std::string& file : files) {
        try {
            lifecycles.push_back(read_lifecycle(file, text_of_file(file)));
        } catch (const FileError& error) {
            problems += (problems.empty() ? "" : "\n") + std::string(error.what());
        }
    }
    if (!problems.empty()) throw FileError(problems);
    check_together(lifecycles);
    return lifecycles;
}

void check_together(const std::vector<Lifecycle>& lifecycles) {
    std::map<std::string, const Lifecycle*> machines;
    std::map<std::pair<std::string, std::string>, const Lifecycle*> columns;
    for (const Lifecycle& lifecycle : lifecycles) {
        const auto [first, is_new] = machines.emplace(lifecycle.machine, &lifecycle);
        if (!is_new)
            throw FileError(lifecycle.file, lifecycle.machine_where,
                            "machine \"" + lifecycle.machine + "\" is also in " + first->second->file);
        for (const TableEntry& table : lifecycle.tables) {
            const auto [other, unused] = columns.emplace(std::pair(table.relation, table.column), &lifecycle);
            if (!unused)
                throw FileError(lifecycle.file, table.where,
                                "column \"" + table.column + "\" of table " + table.relation + " is also in " +
                                    other->second->file);
        }
    }
}

}  // namespace pawl::cli
