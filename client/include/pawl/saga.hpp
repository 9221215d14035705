// Builders for the structure of flows: their tasks, the order of tasks, and what happens when one fails. They make the
// JSON that pawl_saga.define takes, and pawl_saga.define checks it: builders reject nothing.
//
//     namespace saga = pawl::saga;
//     const saga::Flow trip = saga::linear("trip",
//         saga::task("flight").needs("traveller").provides("pnr").execute("book_flight").revert("cancel_flight"),
//         saga::unordered("stay", saga::task("hotel").needs("pnr"), saga::task("car")).retry(saga::times("again",
//         3).backoff({{"base", "1 s"}})));
//     pawl::define_flow(transaction, trip);
//     const std::string flow = pawl::start_flow(transaction, {.name = "trip", .inputs = {{"traveller", "Ada"}}});
#pragma once

#include <chrono>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace pawl::saga {

/// What a controller answers to a failure in its scope: retry the scope; revert it and ask the next outer controller;
/// revert the whole flow.
enum class Answer { retry, revert, revert_all };

/// What is skipped when a decider says no: the target; also the tasks directly behind it; also those of its flow;
/// everything behind it.
enum class Depth { atom, neighbors, flow, all };

/// A retry controller: decides what happens when something in its flow fails.
class Retry {
public:
    Retry(const std::string& controller, const std::string& name);

    Retry& provides(const std::string& name);
    template <typename... Names>
    Retry& needs(const Names&... names) {
        (add_need(names), ...);
        return *this;
    }
    Retry& value(nlohmann::json provided);  ///< What AlwaysRevert and AlwaysRevertAll provide.
    Retry& or_revert_all();                 ///< When no attempt is left, revert the whole flow instead of the scope.
    Retry& backoff(nlohmann::json policy);  ///< The wait before an attempt, as pawl.backoff reads it.
    Retry& on(const std::string& error, Answer answer);  ///< The answer to failures of a type, or of a SQLSTATE.
    Retry& with(const std::string& key, nlohmann::json given);

    const nlohmann::json& json() const noexcept { return json_; }

private:
    void add_need(const std::string& name);
    nlohmann::json json_;
};

Retry always_revert(const std::string& name);
Retry always_revert_all(const std::string& name);
Retry times(const std::string& name, int attempts);                           ///< The first attempt counts.
Retry for_each(const std::string& name, std::vector<nlohmann::json> values);  ///< Provides one value after another.
Retry for_each_of(const std::string& name, const std::string& list);          ///< Looks the values up by this name.
Retry ask_function(const std::string& name, const std::string& function);     ///< schema.f(history jsonb) returns text.

/// Decides, from the results of earlier tasks, whether a task runs at all.
class Decider {
public:
    explicit Decider(nlohmann::json decider) : json_(std::move(decider)) {}
    const nlohmann::json& json() const noexcept { return json_; }

private:
    nlohmann::json json_;
};

Decider when_result_in(std::vector<nlohmann::json> values);
Decider when(const std::string& function);  ///< schema.f(results jsonb) returns boolean.
Decider allow(bool always);

/// A task, or a flow of tasks and flows.
class Item {
public:
    const nlohmann::json& json() const noexcept { return json_; }
    operator const nlohmann::json&() const noexcept { return json_; }

protected:
    explicit Item(nlohmann::json begin) : json_(std::move(begin)) {}
    nlohmann::json json_;
};

class Task : public Item {
public:
    explicit Task(const std::string& name) : Item(nlohmann::json::object({{"task", name}})) {}

    /// Its arguments: names that earlier tasks provide, or inputs of the flow. (`requires` is a keyword of C++.)
    template <typename... Names>
    Task& needs(const Names&... names) {
        (append("requires", names), ...);
        return *this;
    }
    template <typename... Names>
    Task& may_need(const Names&... names) {
        (append("optional", names), ...);
        return *this;
    }
    Task& rebind(const std::string& parameter, const std::string& name);  ///< Looks a parameter up by another name.
    Task& inject(const std::string& parameter, nlohmann::json value);     ///< A constant.
    Task& provides(const std::string& name);                              ///< The whole result.
    Task& provides(std::initializer_list<std::string> names);             ///< Elements of a list, by position.
    Task& provides_member(const std::string& name, const std::string& member);  ///< A member of an object.

    /// The handlers. Default: the task's name. sql:<schema>.<function> runs in the database.
    Task& execute(const std::string& handler);
    Task& revert(const std::string& handler);

    /// No worker executes it: it succeeds by a signal (pawl::signal_flow; its timeout fails it), or after a time.
    Task& wait_for(const std::string& signal);
    Task& wait(std::chrono::milliseconds time);

    Task& queue(const std::string& name);
    Task& priority(int higher_is_earlier);
    Task& timeout(std::chrono::milliseconds of_execute);
    Task& revert_timeout(std::chrono::milliseconds of_revert);
    Task& max_losses(int workers);  ///< Fails after so many workers died with it. Default: 20.
    Task& description(const std::string& text);
    Task& with(const std::string& key, nlohmann::json given);  ///< Any other key of the structure.

private:
    void append(const std::string& key, const std::string& name);
};

class Flow : public Item {
public:
    Flow(const std::string& shape, const std::string& name);

    Flow& add(const Item& child);
    Flow& retry(const Retry& controller);
    Flow& link(const std::string& from, const std::string& to);  ///< Graph flows only.
    Flow& link(const std::string& from, const std::string& to, const Decider& decider, Depth depth = Depth::all);
    Flow& description(const std::string& text);
    Flow& with(const std::string& key, nlohmann::json given);
};

inline Task task(const std::string& name) {
    return Task(name);
}

template <typename... Children>
Flow linear(const std::string& name, const Children&... children) {  // one after another
    Flow made("linear", name);
    (made.add(children), ...);
    return made;
}
template <typename... Children>
Flow unordered(const std::string& name, const Children&... children) {  // all at once
    Flow made("unordered", name);
    (made.add(children), ...);
    return made;
}
template <typename... Children>
Flow graph(const std::string& name, const Children&... children) {  // ordered by links and needs
    Flow made("graph", name);
    (made.add(children), ...);
    return made;
}

}  // namespace pawl::saga
