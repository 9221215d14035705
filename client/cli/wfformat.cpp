// May throw WfFormatError.
#include "wfformat.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace pawl::cli {
namespace {

using nlohmann::json;

const json& member(const json& object, const char* name, const char* where) {
    if (!object.is_object() || !object.contains(name))
        throw WfFormatError(std::string(where) + " has no \"" + name + "\"");
    return object[name];
}

std::string id_of(const json& task) {
    return member(task, task.is_object() && task.contains("id") ? "id" : "name", "a task").get<std::string>();
}

// Run times are recorded apart from the graph.
std::map<std::string, json> executions(const json& workflow) {
    std::map<std::string, json> by_id;
    if (!workflow.contains("execution") || !workflow.at("execution").contains("tasks")) return by_id;
    for (const json& task : workflow.at("execution").at("tasks")) by_id[id_of(task)] = task;
    return by_id;
}

}  // namespace

json import_wfformat(const json& file, const ImportOptions& options) try {
    const json& workflow = member(file, "workflow", "the file");
    const json& tasks = member(member(workflow, "specification", "the workflow"), "tasks", "the specification");
    const auto recorded = executions(workflow);

    // A dependency may be written at either end.
    std::map<std::string, std::set<std::string>> parents;
    for (const json& task : tasks) {
        if (!parents.try_emplace(id_of(task)).second)
            throw WfFormatError("two tasks have the id \"" + id_of(task) + "\"");
    }
    const auto link = [&](const std::string& parent, const std::string& child) {
        for (const std::string& end : {parent, child})
            if (!parents.contains(end)) throw WfFormatError("a dependency names \"" + end + "\", which is no task");
        parents[child].insert(parent);
    };
    for (const json& task : tasks) {
        for (const json& parent : task.value("parents", json::array())) link(parent.get<std::string>(), id_of(task));
        for (const json& child : task.value("children", json::array())) link(id_of(task), child.get<std::string>());
    }

    json steps = json::array();
    double work = 0;
    for (const json& task : tasks) {
        const std::string id = id_of(task);
        json told = json::object();
        if (const auto found = recorded.find(id); found != recorded.end()) {
            told["seconds"] = found->second.value("runtimeInSeconds", 0.0);
            work += told["seconds"].get<double>();
            if (found->second.contains("command") && found->second.at("command").contains("program"))
                told["program"] = found->second["command"]["program"];
        }
        steps.push_back(
            {{"name", id}, {"handler", options.handler}, {"handler_options", told}, {"dependencies", parents[id]}});
    }
    json definition = {{"namespace", options.name_space},
                       {"name", options.name.empty() ? file.value("name", std::string("workflow")) : options.name},
                       {"version", options.version},
                       {"description", file.value("description", std::string())},
                       {"identity_strategy", "always_unique"},
                       {"steps", steps}};
    // what the run is measured against
    definition["metadata"] = {{"work_seconds", work}, {"critical_path_seconds", critical_path(definition)}};
    if (workflow.contains("execution") && workflow.at("execution").contains("makespanInSeconds"))
        definition["metadata"]["makespan_seconds"] = workflow["execution"]["makespanInSeconds"];
    return definition;
} catch (const json::exception& problem) {
    throw WfFormatError(std::string("not WfFormat: ") + problem.what());
}

double critical_path(const json& definition) {
    std::map<std::string, const json*> steps;
    for (const json& step : definition.at("steps")) steps[step.at("name").get<std::string>()] = &step;
    std::map<std::string, double> ends;
    const std::function<double(const std::string&)> end = [&](const std::string& name) {
        if (const auto known = ends.find(name); known != ends.end()) return known->second;
        ends[name] = 0;  // a cycle, which the database will reject
        double begin = 0;
        for (const json& parent : steps.at(name)->at("dependencies"))
            begin = std::max(begin, end(parent.get<std::string>()));
        return ends[name] = begin + steps.at(name)->at("handler_options").value("seconds", 0.0);
    };
    double longest = 0;
    for (const auto& [name, step] : steps) longest = std::max(longest, end(name));
    return longest;
}

}  // namespace pawl::cli
