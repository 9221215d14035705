// Structures of flows from C++: what tasks there are, what comes behind what, what happens when one fails. They become the JSON that pawl_saga.define
// takes, which says what is wrong with them.
//
//     namespace saga = pawl::saga;
//     const saga::Flow trip = saga::linear("trip",
//         saga::task("flight").needs("traveller").provides("pnr").execute("book_flight").revert("cancel_flight"),
//         saga::unordered("stay", saga::task("hotel").needs("pnr"), saga::task("car")).retry(saga::times("again", 3).backoff({{"base", "1 s"}})));
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

// What a controller can say to a failure in its scope: try the scope again, revert it and ask the next one outside, revert the whole flow.
enum class Answer { retry, revert, revert_all };

// How far a decider's no reaches: the target, the tasks directly behind it, those of its flow, everything behind it.
enum class Depth { atom, neighbors, flow, all };

// Decides what happens when something in its flow fails.
class Retry {
public:
    Retry(const std::string& controller, const std::string& name);

    Retry& provides(const std::string& name);
    template <typename... Names>
    Retry& needs(const Names&... names) {
        (add_need(names), ...);
        return *this;
    }
    Retry& value(nlohmann::json provided);               // AlwaysRevert, AlwaysRevertAll: what they provide
    Retry& or_revert_all();                              // when no attempt is left the whole flow is reverted, not its scope alone
    Retry& backoff(nlohmann::json policy);               // the wait before an attempt, as pawl.backoff reads it
    Retry& on(const std::string& error, Answer answer);  // what it says to failures of a type, or of a SQLSTATE
    Retry& with(const std::string& key, nlohmann::json given);

    const nlohmann::json& json() const noexcept { return json_; }

private:
    void add_need(const std::string& name);
    nlohmann::json json_;
};

Retry always_revert(const std::string& name);
Retry always_revert_all(const std::string& name);
Retry times(const std::string& name, int attempts);                              // the first one counts
Retry for_each(const std::string& name, std::vector<nlohmann::json> values);     // provides one value after the other
Retry for_each_of(const std::string& name, const std::string& list);             // the values are looked up by this name
Retry ask_function(const std::string& name, const std::string& function);        // schema.f(history jsonb) returns text

// Says, from the results of those before, whether something is done at all.
class Decider {
public:
    explicit Decider(nlohmann::json decider) : json_(std::move(decider)) {}
    const nlohmann::json& json() const noexcept { return json_; }

private:
    nlohmann::json json_;
};

Decider when_result_in(std::vector<nlohmann::json> values);
Decider when(const std::string& function);  // schema.f(results jsonb) returns boolean
Decider allow(bool always);

// A task, or a flow of tasks and flows.
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

    // What it is given: names that tasks before it provide, or inputs of the flow. (`requires` is a word of C++.)
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
    Task& rebind(const std::string& parameter, const std::string& name);    // looked up by another name
    Task& inject(const std::string& parameter, nlohmann::json value);       // a constant of its own
    Task& provides(const std::string& name);                                // the whole result
    Task& provides(std::initializer_list<std::string> names);               // a list, by position
    Task& provides_member(const std::string& name, const std::string& member);  // a member of an object

    // Handlers that workers know; sql:<schema>.<function> is run by the database. Without a word: the task's own name.
    Task& execute(const std::string& handler);
    Task& revert(const std::string& handler);

    // Nobody executes it: it succeeds when its flow is told so (pawl::signal_flow; its timeout fails it), or when a time has passed.
    Task& wait_for(const std::string& signal);
    Task& wait(std::chrono::milliseconds time);

    Task& queue(const std::string& name);
    Task& priority(int higher_is_earlier);
    Task& timeout(std::chrono::milliseconds of_execute);
    Task& revert_timeout(std::chrono::milliseconds of_revert);
    Task& max_losses(int workers);  // how many workers may die with it before it counts as failed; 20
    Task& description(const std::string& text);
    Task& with(const std::string& key, nlohmann::json given);  // what has no function here

private:
    void append(const std::string& key, const std::string& name);
};

class Flow : public Item {
public:
    Flow(const std::string& shape, const std::string& name);

    Flow& add(const Item& child);
    Flow& retry(const Retry& controller);
    Flow& link(const std::string& from, const std::string& to);  // graph flows only
    Flow& link(const std::string& from, const std::string& to, const Decider& decider, Depth depth = Depth::all);
    Flow& description(const std::string& text);
    Flow& with(const std::string& key, nlohmann::json given);
};

inline Task task(const std::string& name) { return Task(name); }

template <typename... Children>
Flow linear(const std::string& name, const Children&... children) {  // one after the other
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
Flow graph(const std::string& name, const Children&... children) {  // as links and needs say
    Flow made("graph", name);
    (made.add(children), ...);
    return made;
}

}  // namespace pawl::saga
