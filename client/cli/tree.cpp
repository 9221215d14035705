// May throw (out of memory).
#include "tree.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace pawl::cli {
namespace {

using Children = std::map<std::string, std::vector<const TreeStep*>>;

// The longest way from a root to each step; -1 while it is being found, so that a cycle ends.
std::map<std::string, int> depths(const std::map<std::string, const TreeStep*>& by_name) {
    std::map<std::string, int> found;
    const std::function<int(const TreeStep&)> depth = [&](const TreeStep& step) {
        if (const auto known = found.find(step.name); known != found.end()) return known->second;
        found[step.name] = -1;
        int deepest = 0;
        for (const std::string& parent : step.parents)
            if (const auto there = by_name.find(parent); there != by_name.end())
                deepest = std::max(deepest, depth(*there->second) + 1);
        return found[step.name] = deepest;
    };
    for (const auto& [name, step] : by_name) depth(*step);
    return found;
}

std::string line_of(const TreeStep& step, const std::string& below, bool colours) {
    std::string others;
    for (const std::string& parent : step.parents)
        if (parent != below) others += (others.empty() ? "" : ", ") + parent;
    std::string line =
        coloured(step.state, std::string(sign_of(step.state)) + " " + step.name, colours) + "  " + step.state;
    if (!step.note.empty()) line += "  " + step.note;
    if (!others.empty()) line += "  (also after " + others + ")";
    return line + "\n";
}

}  // namespace

const char* sign_of(const std::string& state) {
    if (state == "complete" || state == "resolved_manually" || state == "SUCCESS" || state == "COMPLETE") return "✓";
    if (state == "error" || state == "blocked_by_failures" || state == "FAILURE" || state == "REVERT_FAILURE")
        return "✗";
    if (state == "cancelled" || state == "IGNORE") return "-";
    if (state == "REVERTED") return "↩";
    if (state == "REVERTING") return "◀";
    if (state == "in_progress" || state == "steps_in_process" || state == "RUNNING") return "▶";
    if (state == "waiting_for_retry" || state == "RETRYING" || state.starts_with("SUSPEND") || state == "RESUMING")
        return "↻";
    return "·";
}

std::string coloured(const std::string& state, const std::string& text, bool colours) {
    if (!colours) return text;
    const std::string sign = sign_of(state);
    const char* colour = sign == "✓"                  ? "32"
                         : sign == "✗"                ? "31"
                         : sign == "▶" || sign == "◀" ? "34"
                         : sign == "↻"                ? "33"
                                                      : "90";
    return "\033[" + std::string(colour) + "m" + text + "\033[0m";
}

std::string draw_tree(const std::vector<TreeStep>& steps, bool colours) {
    std::map<std::string, const TreeStep*> by_name;
    for (const TreeStep& step : steps) by_name[step.name] = &step;
    const auto depth = depths(by_name);

    Children children;
    std::map<std::string, std::string> drawn_below;
    for (const TreeStep& step : steps) {
        std::string below;
        for (const std::string& parent : step.parents)
            if (by_name.contains(parent) && depth.at(parent) < depth.at(step.name) &&
                (below.empty() || depth.at(parent) > depth.at(below)))
                below = parent;
        drawn_below[step.name] = below;
        children[below].push_back(&step);
    }

    std::string text;
    const std::function<void(const std::string&, const std::string&)> draw = [&](const std::string& parent,
                                                                                 const std::string& indent) {
        const auto found = children.find(parent);
        if (found == children.end()) return;
        for (std::size_t i = 0; i < found->second.size(); ++i) {
            const TreeStep& step = *found->second[i];
            const bool last = i + 1 == found->second.size();
            const bool root = parent.empty();
            text += indent + (root ? "" : last ? "└─ " : "├─ ") + line_of(step, drawn_below[step.name], colours);
            draw(step.name, indent + (root ? "" : last ? "   " : "│  "));
        }
    };
    draw("", "");
    return text;
}

}  // namespace pawl::cli
