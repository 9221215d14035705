// May throw (out of memory). Structures of flows as JSON.
#include <pawl/saga.hpp>

namespace pawl::saga {
namespace {

double seconds(std::chrono::milliseconds time) {
    return static_cast<double>(time.count()) / 1000;
}

const char* word_of(Answer answer) {
    switch (answer) {
        case Answer::retry:
            return "RETRY";
        case Answer::revert:
            return "REVERT";
        case Answer::revert_all:
            return "REVERT_ALL";
    }
    return "";
}

const char* word_of(Depth depth) {
    switch (depth) {
        case Depth::atom:
            return "ATOM";
        case Depth::neighbors:
            return "NEIGHBORS";
        case Depth::flow:
            return "FLOW";
        case Depth::all:
            return "ALL";
    }
    return "";
}

}  // namespace

Retry::Retry(const std::string& controller, const std::string& name)
    : json_(nlohmann::json::object({{"retry", controller}, {"name", name}})) {}

Retry& Retry::with(const std::string& key, nlohmann::json given) {
    json_[key] = std::move(given);
    return *this;
}
Retry& Retry::provides(const std::string& name) {
    return with("provides", name);
}
Retry& Retry::value(nlohmann::json provided) {
    return with("value", std::move(provided));
}
Retry& Retry::or_revert_all() {
    return with("revert_all", true);
}
Retry& Retry::backoff(nlohmann::json policy) {
    return with("backoff", std::move(policy));
}
Retry& Retry::on(const std::string& error, Answer answer) {
    json_["on"][error] = word_of(answer);
    return *this;
}
void Retry::add_need(const std::string& name) {
    json_["requires"].push_back(name);
}

Retry always_revert(const std::string& name) {
    return {"AlwaysRevert", name};
}
Retry always_revert_all(const std::string& name) {
    return {"AlwaysRevertAll", name};
}
Retry times(const std::string& name, int attempts) {
    return Retry("Times", name).with("attempts", attempts);
}
Retry for_each(const std::string& name, std::vector<nlohmann::json> values) {
    return Retry("ForEach", name).with("values", std::move(values));
}
Retry for_each_of(const std::string& name, const std::string& list) {
    return Retry("ParameterizedForEach", name).with("values", list);
}
Retry ask_function(const std::string& name, const std::string& function) {
    return Retry("Function", name).with("function", function);
}

Decider when_result_in(std::vector<nlohmann::json> values) {
    return Decider(nlohmann::json::object({{"when_result_in", std::move(values)}}));
}
Decider when(const std::string& function) {
    return Decider(nlohmann::json::object({{"function", function}}));
}
Decider allow(bool always) {
    return Decider(nlohmann::json::object({{"allow", always}}));
}

Task& Task::with(const std::string& key, nlohmann::json given) {
    json_[key] = std::move(given);
    return *this;
}
void Task::append(const std::string& key, const std::string& name) {
    json_[key].push_back(name);
}
Task& Task::rebind(const std::string& parameter, const std::string& name) {
    json_["rebind"][parameter] = name;
    return *this;
}
Task& Task::inject(const std::string& parameter, nlohmann::json value) {
    json_["inject"][parameter] = std::move(value);
    return *this;
}
Task& Task::provides(const std::string& name) {
    return with("provides", name);
}
Task& Task::provides(std::initializer_list<std::string> names) {
    return with("provides", std::vector<std::string>(names));
}
Task& Task::provides_member(const std::string& name, const std::string& member) {
    json_["provides"][name] = member;
    return *this;
}
Task& Task::execute(const std::string& handler) {
    return with("execute", handler);
}
Task& Task::revert(const std::string& handler) {
    return with("revert", handler);
}
Task& Task::wait_for(const std::string& signal) {
    return with("signal", signal);
}
Task& Task::wait(std::chrono::milliseconds time) {
    return with("wait_seconds", seconds(time));
}
Task& Task::queue(const std::string& name) {
    return with("queue", name);
}
Task& Task::priority(int higher_is_earlier) {
    return with("priority", higher_is_earlier);
}
Task& Task::timeout(std::chrono::milliseconds of_execute) {
    return with("timeout_seconds", seconds(of_execute));
}
Task& Task::revert_timeout(std::chrono::milliseconds of_revert) {
    return with("revert_timeout_seconds", seconds(of_revert));
}
Task& Task::max_losses(int workers) {
    return with("max_losses", workers);
}
Task& Task::description(const std::string& text) {
    return with("description", text);
}

Flow::Flow(const std::string& shape, const std::string& name)
    : Item(nlohmann::json::object({{"flow", shape}, {"name", name}, {"children", nlohmann::json::array()}})) {}

Flow& Flow::with(const std::string& key, nlohmann::json given) {
    json_[key] = std::move(given);
    return *this;
}
Flow& Flow::add(const Item& child) {
    json_["children"].push_back(child.json());
    return *this;
}
Flow& Flow::retry(const Retry& controller) {
    return with("retry", controller.json());
}
Flow& Flow::link(const std::string& from, const std::string& to) {
    json_["links"].push_back({{"from", from}, {"to", to}});
    return *this;
}
Flow& Flow::link(const std::string& from, const std::string& to, const Decider& decider, Depth depth) {
    json_["links"].push_back({{"from", from}, {"to", to}, {"decider", decider.json()}, {"depth", word_of(depth)}});
    return *this;
}
Flow& Flow::description(const std::string& text) {
    return with("description", text);
}

}  // namespace pawl::saga
