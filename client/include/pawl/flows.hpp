// Flows and jobs from C++: define structures, start flows, look at them. Every function acts inside the transaction it is given, so that
// a flow begins if, and only if, the caller's own changes are committed.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>
#include <pqxx/pqxx>

#include <pawl/saga.hpp>

namespace pawl {

// What to start. Only the name is needed.
struct FlowRequest {
    std::string name;
    nlohmann::json inputs = nlohmann::json::object();
    bool defer_reverts = false;                     // a REVERT asks the controllers outside, and reverts everything in the end
    bool never_resolve = false;                     // a failure is not decided: it ends the flow in FAILURE
    std::optional<int> version = std::nullopt;      // default: the newest
};

struct FlowStatus {
    std::string flow;
    std::string name;
    std::string state;
    int tasks = 0;
    int settled = 0;          // SUCCESS, IGNORE or REVERTED
    nlohmann::json errors;    // by atom, once it is REVERTED or FAILURE

    // SUCCESS, REVERTED or FAILURE; a SUSPENDED flow is at rest, but has not ended.
    bool ended() const noexcept;
};

// What to post. A conductor starts the flow that is named.
struct JobRequest {
    std::string name;
    std::optional<std::string> flow = std::nullopt;
    nlohmann::json inputs = nlohmann::json::object();
    nlohmann::json details = nlohmann::json::object();
    std::string priority = "NORMAL";  // VERY_HIGH, HIGH, NORMAL, LOW, VERY_LOW
    std::string board = "default";
};

std::string define_flow(pqxx::transaction_base& transaction, const nlohmann::json& structure);  // a saga::Flow is one
std::string start_flow(pqxx::transaction_base& transaction, const FlowRequest& request);
std::string run_flow(pqxx::transaction_base& transaction, const std::string& flow);      // these return the state that it is in then
std::string suspend_flow(pqxx::transaction_base& transaction, const std::string& flow);
std::string resume_flow(pqxx::transaction_base& transaction, const std::string& flow);
std::string signal_flow(pqxx::transaction_base& transaction, const std::string& flow, const std::string& signal, const nlohmann::json& payload = nullptr);  // its id
std::optional<FlowStatus> flow_status(pqxx::transaction_base& transaction, const std::string& flow);  // nothing: there is no such flow
nlohmann::json flow_outputs(pqxx::transaction_base& transaction, const std::string& flow);            // every value that has a name
std::string post_job(pqxx::transaction_base& transaction, const JobRequest& request);

}  // namespace pawl
