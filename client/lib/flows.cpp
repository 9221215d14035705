// May throw. Flows and jobs in the caller's transaction: each function is one statement.
#include <pawl/flows.hpp>

#include "json_text.hpp"
#include "sql.hpp"

namespace pawl {
namespace {

std::string text_of(const sql::Rows& found) {
    return found[0][0].as<std::string>();
}

}  // namespace

bool FlowStatus::ended() const noexcept {
    return state == "SUCCESS" || state == "REVERTED" || state == "FAILURE";
}

std::string define_flow(pqxx::transaction_base& transaction, const nlohmann::json& structure) {
    return text_of(sql::run(transaction, "SELECT pawl_saga.define($1::jsonb)", json_text(structure)));
}

std::string start_flow(pqxx::transaction_base& transaction, const FlowRequest& request) {
    const std::optional<std::string> version =
        request.version ? std::optional(std::to_string(*request.version)) : std::nullopt;
    return text_of(sql::run(transaction, "SELECT pawl_saga.start($1, $2::jsonb, $3::boolean, $4::boolean, $5::integer)",
                            request.name, json_text(request.inputs), request.defer_reverts ? "true" : "false",
                            request.never_resolve ? "true" : "false", sql::or_null(version)));
}

std::string run_flow(pqxx::transaction_base& transaction, const std::string& flow) {
    return text_of(sql::run(transaction, "SELECT pawl_saga.run($1::uuid)", flow));
}

std::string suspend_flow(pqxx::transaction_base& transaction, const std::string& flow) {
    return text_of(sql::run(transaction, "SELECT pawl_saga.suspend($1::uuid)", flow));
}

std::string resume_flow(pqxx::transaction_base& transaction, const std::string& flow) {
    return text_of(sql::run(transaction, "SELECT pawl_saga.resume($1::uuid)", flow));
}

std::string signal_flow(pqxx::transaction_base& transaction, const std::string& flow, const std::string& signal,
                        const nlohmann::json& payload) {
    return text_of(
        sql::run(transaction, "SELECT pawl_saga.signal($1::uuid, $2, $3::jsonb)", flow, signal, json_text(payload)));
}

std::optional<FlowStatus> flow_status(pqxx::transaction_base& transaction, const std::string& flow) {
    const sql::Rows found = sql::run(transaction,
                                     "SELECT f.flow_uuid, f.name, f.state, count(t.node), count(*) FILTER (WHERE "
                                     "t.state IN ('SUCCESS', 'IGNORE', 'REVERTED')),"
                                     " pawl_saga.errors(f.flow_uuid)"
                                     " FROM pawl_saga.flows f LEFT JOIN pawl_saga.tasks t ON t.flow_uuid = f.flow_uuid "
                                     "WHERE f.flow_uuid = $1::uuid GROUP BY f.flow_uuid",
                                     flow);
    if (found.empty()) return std::nullopt;
    const auto row = found[0];
    return FlowStatus{row[0].as<std::string>(), row[1].as<std::string>(),
                      row[2].as<std::string>(), row[3].as<int>(),
                      row[4].as<int>(),         row[5].is_null() ? nlohmann::json() : row[5].json()};
}

nlohmann::json flow_outputs(pqxx::transaction_base& transaction, const std::string& flow) {
    return sql::run(transaction, "SELECT pawl_saga.outputs($1::uuid)", flow)[0][0].json();
}

std::string post_job(pqxx::transaction_base& transaction, const JobRequest& request) {
    return text_of(sql::run(transaction, "SELECT pawl_saga.post($1, $2, $3::jsonb, $4::jsonb, $5, $6)", request.name,
                            sql::or_null(request.flow), json_text(request.inputs), json_text(request.details),
                            request.priority, request.board));
}

}  // namespace pawl
