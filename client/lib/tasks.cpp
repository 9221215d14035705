// May throw. Tasks in the caller's transaction: each function is one statement.
#include <pawl/tasks.hpp>

#include "json_text.hpp"
#include "sql.hpp"

namespace pawl {

bool TaskStatus::ended() const noexcept {
    return state == "complete" || state == "error" || state == "cancelled" || state == "resolved_manually";
}

std::string define_template(pqxx::transaction_base& transaction, const nlohmann::json& definition) {
    return sql::run(transaction, "SELECT pawl_dag.define_template($1::jsonb)", json_text(definition))[0][0]
        .as<std::string>();
}

std::string start_task(pqxx::transaction_base& transaction, const TaskRequest& request) {
    return sql::run(transaction,
                    "SELECT pawl_dag.start_task($1, $2::jsonb, $3, $4, $5::integer, $6, $7::uuid, $8::uuid)",
                    request.name, json_text(request.context), request.name_space, sql::or_null(request.version),
                    request.priority, sql::or_null(request.identity_key), sql::or_null(request.correlation_id),
                    sql::or_null(request.parent_correlation_id))[0][0]
        .as<std::string>();
}

std::vector<std::string> start_tasks(pqxx::transaction_base& transaction, const TaskRequest& request,
                                     const std::vector<nlohmann::json>& contexts) {
    const sql::Rows started =
        sql::run(transaction,
                 "SELECT pawl_dag.start_tasks($1, ARRAY(SELECT c.v FROM jsonb_array_elements($2::jsonb) WITH "
                 "ORDINALITY c(v, n) ORDER BY c.n),"
                 " $3, $4, $5::integer, NULL, $6::uuid, $7::uuid)",
                 request.name, json_text(nlohmann::json(contexts)), request.name_space, sql::or_null(request.version),
                 request.priority, sql::or_null(request.correlation_id), sql::or_null(request.parent_correlation_id));
    std::vector<std::string> tasks;
    tasks.reserve(started.size());
    for (const auto& row : started) tasks.push_back(row[0].as<std::string>());
    return tasks;
}

std::optional<TaskStatus> task_status(pqxx::transaction_base& transaction, const std::string& task) {
    const sql::Rows found =
        sql::run(transaction,
                 "SELECT t.task_uuid, t.name, t.state, t.steps_total, t.steps_satisfied, t.steps_failed"
                 " FROM pawl_dag.tasks t WHERE t.task_uuid = $1::uuid",
                 task);
    if (found.empty()) return std::nullopt;
    const auto row = found[0];
    return TaskStatus{row[0].as<std::string>(), row[1].as<std::string>(), row[2].as<std::string>(),
                      row[3].as<int>(),         row[4].as<int>(),         row[5].as<int>()};
}

nlohmann::json task_results(pqxx::transaction_base& transaction, const std::string& task) {
    const sql::Rows found = sql::run(transaction,
                                     "SELECT coalesce(jsonb_object_agg(s.name, s.result), '{}') FROM pawl_dag.steps s"
                                     " WHERE s.task_uuid = $1::uuid AND s.result IS NOT NULL",
                                     task);
    return found[0][0].json();
}

std::string fire(pqxx::transaction_base& transaction, const std::string& relation, const std::string& key,
                 const std::string& event, const nlohmann::json& metadata, std::optional<std::int64_t> token) {
    const std::optional<std::string> noted = metadata.is_null() ? std::nullopt : std::optional(json_text(metadata));
    const std::optional<std::string> fencing_token = token ? std::optional(std::to_string(*token)) : std::nullopt;
    return sql::run(transaction,
                    "SELECT pawl.fire($1::regclass, $2::text, $3, metadata => $4::jsonb, token => $5::bigint)",
                    relation, key, event, sql::or_null(noted), sql::or_null(fencing_token))[0][0]
        .as<std::string>();
}

}  // namespace pawl
