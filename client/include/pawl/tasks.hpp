// Workflows from C++: define templates, start tasks, look at them. Every function acts inside the transaction it is given, so that
// a task begins if, and only if, the caller's own changes are committed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <pqxx/pqxx>

namespace pawl {

// What to start. Only the name is needed.
struct TaskRequest {
    std::string name;
    nlohmann::json context = nlohmann::json::object();
    std::string name_space = "default";
    std::optional<std::string> version = std::nullopt;  // default: the newest
    int priority = 0;                                   // higher is earlier
    std::optional<std::string> identity_key = std::nullopt;
    std::optional<std::string> correlation_id = std::nullopt;
    std::optional<std::string> parent_correlation_id = std::nullopt;
};

// A task as it stands.
struct TaskStatus {
    std::string task;
    std::string name;
    std::string state;
    int steps = 0;
    int satisfied = 0;
    int failed = 0;

    // complete, error, cancelled or resolved_manually
    bool ended() const noexcept;
};

// Defines a version of a workflow and returns its id; see pawl_dag.define_template for the shape.
std::string define_template(pqxx::transaction_base& transaction, const nlohmann::json& definition);

// Starts a task and returns its id. SQLSTATE 23505: a task of the same identity is there already.
std::string start_task(pqxx::transaction_base& transaction, const TaskRequest& request);

// Starts one task for each context, in one statement; whatever else `request` says holds for all of them, but its context and
// its identity key.
std::vector<std::string> start_tasks(pqxx::transaction_base& transaction, const TaskRequest& request,
                                     const std::vector<nlohmann::json>& contexts);

// Nothing where there is no such task.
std::optional<TaskStatus> task_status(pqxx::transaction_base& transaction, const std::string& task);

// The results of the steps of a task, by name; steps that have none are left out.
nlohmann::json task_results(pqxx::transaction_base& transaction, const std::string& task);

// Moves a row of any enforced table by an event and returns its new state; `key` as text. The fencing token, if given, must be the row's.
std::string fire(pqxx::transaction_base& transaction, const std::string& relation, const std::string& key, const std::string& event,
                 const nlohmann::json& metadata = nullptr, std::optional<std::int64_t> token = std::nullopt);

}  // namespace pawl
