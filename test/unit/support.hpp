// Files of the repository, and machines as lists of text that tests can compare.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/machine.hpp"

namespace pawl::test {

inline std::filesystem::path root() {
    return PAWL_ROOT;
}

inline std::string file(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error("no such file: " + path.string());
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

inline std::string diagram_file(const std::string& name) {
    return file(root() / "test" / "diagrams" / (name + ".mmd"));
}

inline std::vector<std::filesystem::path> diagram_files(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        if (entry.path().extension() == ".mmd") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

inline core::Diagram draw(const std::string& body) {
    return core::read_mermaid("stateDiagram-v2\n" + body);
}

inline core::Machine machine(const std::string& body) {
    return core::compile(draw(body));
}

inline const core::DrawnState& state(const core::Diagram& diagram, const std::string& id) {
    for (const core::DrawnState& each : diagram.states) {
        if (each.id == id) return each;
    }
    throw std::runtime_error("no state " + id);
}

inline const core::State& state(const core::Machine& machine, const std::string& name) {
    for (const core::State& each : machine.states()) {
        if (each.name == name) return each;
    }
    throw std::runtime_error("no state " + name);
}

inline std::string joined(const std::vector<std::string>& parts) {
    std::string result;
    for (const std::string& part : parts) result += (result.empty() ? "" : ",") + part;
    return result;
}

inline std::string name_of(const core::Machine& machine, core::StateId id) {
    return id == core::no_state ? "[*]" : machine.states()[static_cast<std::size_t>(id)].name;
}

// "from event to", with [guards], {after} and /effects where there are any.
inline std::string text(const core::Machine& machine, const core::Transition& transition) {
    std::string result = name_of(machine, transition.from) + " -" + transition.event;
    if (!transition.params.empty()) result += "(" + joined(transition.params) + ")";
    if (!transition.guards.empty()) result += "[" + joined(transition.guards) + "]";
    if (!transition.after.empty()) result += "{" + transition.after + "}";
    if (!transition.effects.empty()) result += "/" + joined(transition.effects);
    return result + "-> " + name_of(machine, transition.to);
}

inline std::vector<std::string> texts(const core::Machine& machine) {
    std::vector<std::string> result;
    for (const core::Transition& transition : machine.transitions()) result.push_back(text(machine, transition));
    return result;
}

inline std::set<std::string> terminals(const core::Machine& machine) {
    std::set<std::string> result;
    for (const core::State& each : machine.states()) {
        if (each.terminal) result.insert(each.name);
    }
    return result;
}

inline std::set<std::string> initials(const core::Machine& machine) {
    std::set<std::string> result;
    for (const core::State& each : machine.states()) {
        if (each.initial) result.insert(each.name);
    }
    return result;
}

template <typename Action>
core::Error error_of(Action action) {
    try {
        action();
    } catch (const core::Error& error) {
        return error;
    }
    throw std::runtime_error("no error was thrown");
}

}  // namespace pawl::test
