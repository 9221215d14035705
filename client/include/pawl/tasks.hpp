// Workflows (pawl_dag) from C++: define templates, start tasks, read their state. Every function acts in the
// transaction that it is given: a task begins if, and only if, the caller's own changes are committed. Errors are
// pawl::Error with the server's SQLSTATE.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <pqxx/pqxx>

namespace pawl {

/// What to start. Only the name is required.
struct TaskRequest {
    std::string name;  ///< The template's name.
    nlohmann::json context = nlohmann::json::object();
    std::string name_space = "default";                      ///< The template's namespace, and the queue of its steps.
    std::optional<std::string> version = std::nullopt;       ///< Default: the newest.
    int priority = 0;                                        ///< Higher is earlier.
    std::optional<std::string> identity_key = std::nullopt;  ///< Rejects a second task with the same key.
    std::optional<std::string> correlation_id = std::nullopt;
    std::optional<std::string> parent_correlation_id = std::nullopt;
};

/// The state of a task, and how many of its steps are where.
struct TaskStatus {
    std::string task;
    std::string name;
    std::string state;
    int steps = 0;
    int satisfied = 0;  ///< Steps that need no more work.
    int failed = 0;

    /// complete, error, cancelled or resolved_manually.
    bool ended() const noexcept;
};

/// Defines a version of a workflow and returns its id. docs/dag.md has the shape of `definition`.
std::string define_template(pqxx::transaction_base& transaction, const nlohmann::json& definition);

/// Starts a task and returns its id.
/// @throws Error with SQLSTATE 23505 if a task with the same identity key exists
std::string start_task(pqxx::transaction_base& transaction, const TaskRequest& request);

/// Starts one task for each context, in one statement, and returns their ids in the same order. Everything else of
/// `request` holds for all of them, except its context and its identity key.
std::vector<std::string> start_tasks(pqxx::transaction_base& transaction, const TaskRequest& request,
                                     const std::vector<nlohmann::json>& contexts);

/// Nothing if there is no such task.
std::optional<TaskStatus> task_status(pqxx::transaction_base& transaction, const std::string& task);

/// The results of a task's steps by name. Steps without a result are left out.
nlohmann::json task_results(pqxx::transaction_base& transaction, const std::string& task);

/// Fires an event for a row of any enforced table and returns the new state.
/// @param key the row's key as text
/// @param metadata for the log entry
/// @param token the fencing token that the row must have; default: none is checked
/// @throws error::no_such_transition and the other types of class PW
std::string fire(pqxx::transaction_base& transaction, const std::string& relation, const std::string& key,
                 const std::string& event, const nlohmann::json& metadata = nullptr,
                 std::optional<std::int64_t> token = std::nullopt);

}  // namespace pawl
