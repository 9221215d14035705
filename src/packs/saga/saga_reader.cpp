// Pure C++; throws core::Error. Reads the structure of a flow from JSON; see saga.hpp.
#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.hpp"
#include "packs/saga/saga.hpp"

namespace pawl::core::saga {

namespace {

using Kind = Json::Kind;

[[noreturn]] void reject(std::string message, std::string detail = {}, std::string hint = {}) {
    throw Error(std::move(message), {}, std::move(detail), std::move(hint));
}

void only_keys(const Json& json, const std::string& what, std::string_view known) {
    for (const auto& [key, value] : json.members) {
        const std::string padded = " " + key + " ";
        if (std::string(" ").append(known).append(" ").find(padded) == std::string::npos ||
            key.find(' ') != std::string::npos)
            reject(what + " has an unknown key \"" + key + "\"", {}, std::string(known));
    }
}

// The value of a key, if it is present and not null.
const Json* given(const Json& json, std::string_view key) {
    const Json* value = json.find(key);
    return value == nullptr || value->is(Kind::null) ? nullptr : value;
}

std::string text_of(const Json& json, std::string_view key, const std::string& what) {
    const Json* value = given(json, key);
    if (value == nullptr) return {};
    if (!value->is(Kind::string)) reject("\"" + std::string(key) + "\" of " + what + " must be a text");
    return value->string;
}

std::string name_of(const Json& json, std::string_view key, const char* what) {
    std::string name = text_of(json, key, what);
    if (name.empty()) reject("a " + std::string(what) + " has no name", {}, "\"" + std::string(key) + "\": \"...\"");
    return name;
}

std::vector<std::string> texts_of(const Json* json, const std::string& what) {
    std::vector<std::string> texts;
    if (json == nullptr || json->is(Kind::null)) return texts;
    if (json->is(Kind::string)) return {json->string};
    if (json->is(Kind::object)) {
        for (const auto& [key, value] : json->members) texts.push_back(key);
        return texts;
    }
    if (!json->is(Kind::array)) reject(what + " must be a text, or a list of texts");
    for (const Json& each : json->items) {
        if (!each.is(Kind::string)) reject(what + " must be a text, or a list of texts");
        texts.push_back(each.string);
    }
    return texts;
}

int whole_number(const Json& json, std::string_view key, const std::string& what) {
    const Json* value = json.find(key);
    if (value == nullptr) return 0;
    int number = 0;
    const auto [end, problem] = std::from_chars(value->raw.data(), value->raw.data() + value->raw.size(), number);
    if (problem != std::errc() || end != value->raw.data() + value->raw.size())
        reject("\"" + std::string(key) + "\" of " + what + " must be a 32-bit integer", {},
               "\"" + std::string(key) + "\": 10");
    return number;
}

void add_need(std::vector<Need>& needs, Need need) {
    const auto same =
        std::find_if(needs.begin(), needs.end(), [&](const Need& other) { return other.parameter == need.parameter; });
    if (same == needs.end())
        needs.push_back(std::move(need));
    else
        *same = std::move(need);
}

std::vector<Need> needs_of(const Json& json, const std::string& what) {
    std::vector<Need> needs;
    for (std::string& name : texts_of(json.find("requires"), "\"requires\" of " + what))
        add_need(needs, {name, name, false, {}});
    for (std::string& name : texts_of(json.find("optional"), "\"optional\" of " + what))
        add_need(needs, {name, name, true, {}});
    if (const Json* rebind = json.find("rebind")) {
        if (!rebind->is(Kind::object))
            reject("\"rebind\" of " + what + " must be an object", {}, "\"rebind\": {\"parameter\": \"name\"}");
        for (const auto& [parameter, name] : rebind->members) {
            if (!name.is(Kind::string))
                reject("\"rebind\" of " + what + " must map parameters to names", {},
                       "\"rebind\": {\"parameter\": \"name\"}");
            const bool optional = std::any_of(needs.begin(), needs.end(), [&, given = parameter](const Need& n) {
                return n.parameter == given && n.optional;
            });
            add_need(needs, {parameter, name.string, optional, {}});
        }
    }
    if (const Json* inject = json.find("inject")) {
        if (!inject->is(Kind::object))
            reject("\"inject\" of " + what + " must be an object", {}, "\"inject\": {\"name\": value}");
        // A value is injected only for what the atom requires.
        for (const auto& [name, value] : inject->members)
            for (Need& need : needs)
                if (need.name == name) need.injected = value.raw;
    }
    return needs;
}

constexpr std::array<std::string_view, 6> controllers{"AlwaysRevert", "AlwaysRevertAll",      "Times",
                                                      "ForEach",      "ParameterizedForEach", "Function"};

std::unique_ptr<Retry> read_retry(const Json& json, const std::string& flow) {
    if (!json.is(Kind::object))
        reject("the retry of flow \"" + flow + "\" must be an object", {},
               "\"retry\": {\"retry\": \"Times\", \"name\": \"...\", \"attempts\": 3}");
    only_keys(json, "a retry", "retry name attempts values revert_all provides requires value backoff on function");
    auto retry = std::make_unique<Retry>();
    const std::string kind = name_of(json, "retry", "retry");
    if (std::find(controllers.begin(), controllers.end(), kind) == controllers.end())
        reject("unknown retry controller \"" + kind + "\"", {},
               "AlwaysRevert, AlwaysRevertAll, Times, ForEach, ParameterizedForEach, Function");
    retry->name = name_of(json, "name", "retry");
    retry->written = json.raw;
    retry->provides = texts_of(json.find("provides"), "\"provides\" of retry \"" + retry->name + "\"");
    retry->needs = needs_of(json, "retry \"" + retry->name + "\"");
    if (kind == "Times") whole_number(json, "attempts", "retry \"" + retry->name + "\"");
    const Json* values = json.find("values");
    if (kind == "ForEach" && (values == nullptr || !values->is(Kind::array)))
        reject("retry \"" + retry->name + "\" has no list of values", {}, "\"values\": [1, 2, 3]");
    if (kind == "ParameterizedForEach")
        add_need(retry->needs,
                 {"values", values != nullptr && values->is(Kind::string) ? values->string : "values", false, {}});
    if (kind == "Function" && text_of(json, "function", "a retry").empty())
        reject("retry \"" + retry->name + "\" names no function", {}, "\"function\": \"my_schema.my_function\"");
    return retry;
}

Item read_item(const Json& json);

void read_links(Item& flow, const Json& json) {
    const Json* links = json.find("links");
    if (links == nullptr) return;
    if (flow.shape != Shape::graph)
        reject("flow \"" + flow.name + "\" has links, but is not a graph flow", {}, "\"flow\": \"graph\"");
    if (!links->is(Kind::array))
        reject("\"links\" of flow \"" + flow.name + "\" must be a list", {},
               "\"links\": [{\"from\": \"a\", \"to\": \"b\"}]");
    for (const Json& each : links->items) {
        only_keys(each, "a link", "from to decider depth");
        Link link;
        link.from = name_of(each, "from", "link");
        link.to = name_of(each, "to", "link");
        if (const Json* decider = each.find("decider")) {
            if (!decider->is(Kind::object) || decider->members.size() != 1)
                reject("a decider must have exactly one key", {}, "\"decider\": {\"when_result_in\": [1, 2]}");
            only_keys(*decider, "a decider", "allow when_result_in function");
            link.decider = decider->raw;
        }
        link.depth = text_of(each, "depth", "a link");
        if (link.depth.empty()) link.depth = "ALL";
        if (link.depth != "ALL" && link.depth != "FLOW" && link.depth != "NEIGHBORS" && link.depth != "ATOM")
            reject("unknown depth \"" + link.depth + "\" of a decider", {}, "ALL, FLOW, NEIGHBORS, ATOM");
        flow.links.push_back(std::move(link));
    }
}

Item read_flow(const Json& json) {
    only_keys(json, "a flow", "flow name retry children links version description");
    Item flow;
    const std::string shape = name_of(json, "flow", "flow");
    if (shape != "linear" && shape != "unordered" && shape != "graph")
        reject("unknown kind of flow \"" + shape + "\"", {}, "linear, unordered, graph");
    flow.shape = shape == "linear" ? Shape::linear : shape == "unordered" ? Shape::unordered : Shape::graph;
    flow.name = name_of(json, "name", "flow");
    flow.written = json.raw;
    if (const Json* retry = json.find("retry"); retry != nullptr && !retry->is(Kind::null))
        flow.retry = read_retry(*retry, flow.name);
    if (const Json* children = json.find("children")) {
        if (!children->is(Kind::array)) reject("\"children\" of flow \"" + flow.name + "\" must be a list");
        for (const Json& child : children->items) flow.children.push_back(read_item(child));
    }
    read_links(flow, json);
    return flow;
}

void check_seconds(const Json& json, std::string_view key, const std::string& what) {
    const Json* value = given(json, key);
    if (value == nullptr) return;
    double seconds = -1;
    const auto [end, problem] = std::from_chars(value->raw.data(), value->raw.data() + value->raw.size(), seconds);
    if (problem != std::errc() || end != value->raw.data() + value->raw.size() || seconds < 0 || seconds > 1e9)
        reject("\"" + std::string(key) + "\" of " + what + " must be a number of seconds",
               "It may be from 0 to 1000000000.", "\"" + std::string(key) + "\": 60");
}

// Whether workers execute a task, or it only waits, and for how long.
void check_work(const Json& json, const std::string& what) {
    for (const std::string_view key : {"execute", "revert", "queue"}) text_of(json, key, what);
    for (const std::string_view key : {"timeout_seconds", "revert_timeout_seconds", "wait_seconds"})
        check_seconds(json, key, what);
    if (given(json, "max_losses") != nullptr && whole_number(json, "max_losses", what) < 1)
        reject("\"max_losses\" of " + what + " must be at least 1", {}, "\"max_losses\": 20");
    const bool signal = given(json, "signal") != nullptr;
    if (signal && text_of(json, "signal", what).empty())
        reject("\"signal\" of " + what + " has no name", {}, "\"signal\": \"approved\"");
    if ((signal || given(json, "wait_seconds") != nullptr) && given(json, "execute") != nullptr)
        reject(what + " waits and cannot have \"execute\"", {}, "a task behind it, with \"execute\"");
}

Item read_task(const Json& json) {
    only_keys(json, "a task",
              "task priority requires optional provides rebind inject execute revert queue timeout_seconds "
              "revert_timeout_seconds signal wait_seconds max_losses description version");
    Item task;
    task.name = name_of(json, "task", "task");
    task.priority = whole_number(json, "priority", "task \"" + task.name + "\"");
    task.provides = texts_of(json.find("provides"), "\"provides\" of task \"" + task.name + "\"");
    task.needs = needs_of(json, "task \"" + task.name + "\"");
    check_work(json, "task \"" + task.name + "\"");
    task.written = json.raw;
    return task;
}

// The beginning of a user's text, for an error: whole characters only.
std::string beginning(std::string_view text) {
    if (text.size() <= 100) return std::string(text);
    std::size_t end = 100;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return std::string(text.substr(0, end)) + " ...";
}

Item read_item(const Json& json) {
    if (json.is(Kind::object) && json.find("flow") != nullptr) return read_flow(json);
    if (json.is(Kind::object) && json.find("task") != nullptr) return read_task(json);
    if (json.is(Kind::object) && json.find("retry") != nullptr)
        reject("a retry cannot stand alone, it belongs to a flow", {},
               "{\"flow\": \"linear\", \"name\": \"...\", \"retry\": {...}, \"children\": []}");
    reject("expected a flow or a task", "It is " + beginning(json.raw) + ".",
           "{\"task\": \"...\"} or {\"flow\": \"linear\", \"name\": \"...\", \"children\": []}");
}

}  // namespace

Item read_structure(const Json& json) {
    return read_item(json);
}

}  // namespace pawl::core::saga
