// Flows and jobs (pawl_saga) from C++: define structures, start flows, read their state. Every function acts in the
// transaction that it is given: a flow begins if, and only if, the caller's own changes are committed. Errors are
// pawl::Error with the server's SQLSTATE.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>
#include <pqxx/pqxx>

#include <pawl/saga.hpp>

namespace pawl {

/// What to start. Only the name is required.
struct FlowRequest {
    std::string name;  ///< The definition's name.
    nlohmann::json inputs = nlohmann::json::object();
    bool defer_reverts = false;  ///< A REVERT asks the outer controllers first, and everything is reverted at the end.
    bool never_resolve = false;  ///< A failure is not decided: it ends the flow in FAILURE.
    std::optional<int> version = std::nullopt;  ///< Default: the newest.
};

/// The state of a flow.
struct FlowStatus {
    std::string flow;
    std::string name;
    std::string state;
    int tasks = 0;
    int finished = 0;       ///< Tasks in SUCCESS, IGNORE or REVERTED.
    nlohmann::json errors;  ///< By atom, once the flow is REVERTED or FAILURE.

    /// SUCCESS, REVERTED or FAILURE. A SUSPENDED flow rests, but has not ended.
    bool ended() const noexcept;
};

/// What to post. A conductor starts the flow that the job names.
struct JobRequest {
    std::string name;
    std::optional<std::string> flow = std::nullopt;
    nlohmann::json inputs = nlohmann::json::object();
    nlohmann::json details = nlohmann::json::object();
    std::string priority = "NORMAL";  ///< VERY_HIGH, HIGH, NORMAL, LOW, VERY_LOW.
    std::string board = "default";
};

/// Defines a version of a flow and returns its id. A saga::Flow converts to `structure`.
std::string define_flow(pqxx::transaction_base& transaction, const nlohmann::json& structure);

/// Starts a flow and returns its id.
std::string start_flow(pqxx::transaction_base& transaction, const FlowRequest& request);

/// Act on a flow and return its new state.
std::string run_flow(pqxx::transaction_base& transaction, const std::string& flow);
std::string suspend_flow(pqxx::transaction_base& transaction, const std::string& flow);
std::string resume_flow(pqxx::transaction_base& transaction, const std::string& flow);

/// Sends a signal and returns its id. A signal that no task waits for yet is kept.
std::string signal_flow(pqxx::transaction_base& transaction, const std::string& flow, const std::string& signal,
                        const nlohmann::json& payload = nullptr);

/// Nothing if there is no such flow.
std::optional<FlowStatus> flow_status(pqxx::transaction_base& transaction, const std::string& flow);

/// Every provided value by its name.
nlohmann::json flow_outputs(pqxx::transaction_base& transaction, const std::string& flow);

/// Posts a job and returns its id.
std::string post_job(pqxx::transaction_base& transaction, const JobRequest& request);

}  // namespace pawl
