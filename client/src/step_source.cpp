// May throw. Steps of workflows as work. The rows are the API: a result is an UPDATE of the step.
#include <map>

#include "sql.hpp"
#include "work_source.hpp"

namespace pawl {
namespace {

using nlohmann::json;

constexpr const char* claim_statement =
    "SELECT c.task_uuid, c.step_uuid, c.name, c.handler, c.handler_options, c.fence, c.attempts"
    "  FROM pawl.claim(null::pawl_dag.steps, 'Start', $1, $2::interval, $3::integer, $4) c";

constexpr const char* claim_told_statement =
    "SELECT c.task_uuid, c.step_uuid, c.name, c.handler, c.handler_options, c.fence, c.attempts"
    "  FROM pawl.claim_keys(null::pawl_dag.steps, $4::text[], 'Start', $1, $2::interval, $3) c";

constexpr const char* recover_statement =
    "SELECT c.task_uuid, c.step_uuid, c.name, c.handler, c.handler_options, c.fence, c.attempts"
    "  FROM pawl_dag.steps c WHERE c.worker_uuid = $1::uuid AND c.state = 'in_progress'";

// A statement of its own: that of the claim may be older than the results of the parents.
constexpr const char* context_statement =
    "SELECT i.step_uuid, i.context, i.correlation_id,"
    "       (SELECT coalesce(jsonb_object_agg(p.name, p.value -> 'result'), '{}') FROM jsonb_each(i.parents) p(name, value))"
    "  FROM pawl_dag.step_inputs($1::uuid[], $2::uuid[]) i";

constexpr const char* report_statement =
    "WITH me AS MATERIALIZED (SELECT set_config('pawl.processor', $1, true) AS processor),"
    " given AS MATERIALIZED ("
    "    SELECT g.*, me.processor FROM me, jsonb_to_recordset($2::jsonb)"
    "        AS g(task uuid, step uuid, fence bigint, ok boolean, value jsonb, permanent boolean, asked double precision)),"
    " reported AS ("
    "    UPDATE pawl_dag.steps s"
    "       SET state = CASE WHEN g.ok THEN 'enqueued_for_orchestration' ELSE 'enqueued_as_error_for_orchestration' END,"
    "           result = CASE WHEN g.ok THEN g.value ELSE s.result END, error = CASE WHEN g.ok THEN NULL ELSE g.value END,"
    "           permanent = g.permanent, backoff_request = make_interval(secs => g.asked)"
    "      FROM given g"
    "     WHERE s.task_uuid = g.task AND s.step_uuid = g.step AND s.state = 'in_progress'"
    "       AND s.worker_uuid = g.processor::uuid AND s.fence = g.fence AND s.lease_until > clock_timestamp()"
    " RETURNING s.step_uuid)"
    " SELECT step_uuid FROM reported";

// Only a result leaves a step without a change of its token.
constexpr const char* counted_statement =
    "SELECT s.step_uuid FROM unnest($1::uuid[], $2::uuid[], $3::bigint[]) g(task, step, fence)"
    "  JOIN pawl_dag.steps s ON s.task_uuid = g.task AND s.step_uuid = g.step AND s.fence = g.fence AND s.state <> 'in_progress'";

class StepSource final : public WorkSource {
public:
    StepSource(const WorkerSettings& settings, const std::string& processor)
        : processor_(processor),
          queue_(settings.name_space),
          lease_(std::to_string(settings.lease.count()) + " ms"),
          orchestrate_(settings.orchestrate) {}

    void prepare(pqxx::connection&) override {}

    std::vector<Job> claim(pqxx::connection& connection, int batch) override {
        return jobs(connection, sql::run_alone(connection, claim_statement, processor_, lease_, batch, queue_));
    }

    std::vector<Job> claim_told(pqxx::connection& connection, const std::vector<RowKey>& keys) override {
        return jobs(connection, sql::run_alone(connection, claim_told_statement, processor_, lease_, queue_, sql::keys_array(keys)));
    }

    std::vector<Job> recover(pqxx::connection& connection) override {
        return jobs(connection, sql::run_alone(connection, recover_statement, processor_));
    }

    std::set<std::string> report(pqxx::connection& connection, const std::vector<Finished>& results, bool in_doubt) override {
        json given = json::array();
        std::vector<std::string> tasks, steps, fences;
        for (const Finished& one : results) {
            const Job& job = one.work->job;
            given.push_back({{"task", job.task},
                             {"step", job.key},
                             {"fence", job.token},
                             {"ok", one.outcome == Outcome::success},
                             {"value", one.value},
                             {"permanent", one.outcome == Outcome::permanent_failure},
                             {"asked", one.asked ? json(static_cast<double>(one.asked->count()) / 1000) : json(nullptr)}});
            tasks.push_back(job.task);
            steps.push_back(job.key);
            fences.push_back(std::to_string(job.token));
        }
        std::set<std::string> counted;
        const auto note = [&](const pqxx::result& rows) {
            for (const auto& row : rows) counted.insert(row[0].as<std::string>());
        };
        note(sql::run_alone(connection, report_statement, processor_, json_text(given)));
        if (in_doubt && counted.size() < results.size())
            note(sql::run_alone(connection, counted_statement, sql::text_array(tasks), sql::text_array(steps), sql::text_array(fences)));
        return counted;
    }

    Held beat(pqxx::connection& connection) override {
        sql::run_alone(connection, "SELECT pawl.heartbeat('pawl_dag.steps', $1, $2::interval)", processor_, lease_);
        Held held;
        for (const auto& row : sql::run_alone(
                 connection, "SELECT s.step_uuid, s.fence FROM pawl_dag.steps s WHERE s.worker_uuid = $1::uuid", processor_))
            held.emplace(row[0].as<std::string>(), row[1].as<std::int64_t>());
        return held;
    }

    bool follow_up(pqxx::connection& connection) override {
        return orchestrate_ && sql::run_alone(connection, "SELECT o.tasks FROM pawl_dag.orchestrate(100) o")[0][0].as<int>() > 0;
    }

    const std::string& relation() const noexcept override { return relation_; }

    Channel channel() const override { return {relation_, queue_}; }

    std::unique_ptr<WorkSource> copy() const override { return std::make_unique<StepSource>(*this); }

private:
    std::vector<Job> jobs(pqxx::connection& connection, const pqxx::result& rows) const {
        std::vector<Job> made;
        std::vector<std::string> tasks, steps;
        for (const auto& row : rows) {
            Job job;
            job.task = row[0].as<std::string>();
            job.key = row[1].as<std::string>();
            job.name = row[2].as<std::string>();
            job.handler = row[3].as<std::string>();
            job.options = json::parse(row[4].c_str());
            job.token = row[5].as<std::int64_t>();
            job.attempt = row[6].as<int>();
            tasks.push_back(job.task);
            steps.push_back(job.key);
            made.push_back(std::move(job));
        }
        if (made.empty()) return made;
        std::map<std::string, Job*> by_step;
        for (Job& job : made) by_step[job.key] = &job;
        for (const auto& row : sql::run_alone(connection, context_statement, sql::text_array(tasks), sql::text_array(steps))) {
            Job& job = *by_step.at(row[0].as<std::string>());
            job.context = json::parse(row[1].c_str());
            job.correlation_id = row[2].as<std::string>();
            job.inputs = json::parse(row[3].c_str());
        }
        return made;
    }

    std::string processor_;
    std::string queue_;
    std::string lease_;
    std::string relation_ = "pawl_dag.steps";
    bool orchestrate_;
};

}  // namespace

std::unique_ptr<WorkSource> make_step_source(const WorkerSettings& settings, const std::string& processor) {
    return std::make_unique<StepSource>(settings, processor);
}

std::string json_text(const nlohmann::json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace pawl
