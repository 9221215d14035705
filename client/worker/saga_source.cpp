// May throw. Tasks of flows as work. What a handler needs for a revert is in the job's inputs.
#include "sql.hpp"
#include "work_source.hpp"

namespace pawl {
namespace {

using nlohmann::json;

constexpr const char* claim_statement = "SELECT c.* FROM pawl_saga.claim($1, $2, $3::integer, $4::interval) c";

constexpr const char* report_and_claim_statement =
    "SELECT c.* FROM pawl_saga.report_and_claim($1::jsonb, $2, $3, $4::integer, $5::interval) c";

// The columns of pawl_saga.claim, for tasks that this processor owns.
constexpr const char* owned_statement =
    "SELECT t.flow_uuid, t.node, t.name, CASE t.state WHEN 'RUNNING' THEN 'execute' ELSE 'revert' END AS action,"
    "       CASE t.state WHEN 'RUNNING' THEN t.execute ELSE coalesce(t.revert, t.execute) END AS handler, t.token,"
    "       pawl_saga.arguments(t.flow_uuid, t.node) AS arguments, t.result, t.failure,"
    "       CASE WHEN t.state = 'REVERTING' THEN pawl_saga.failures(t.flow_uuid) END AS failures, f.traceparent, "
    "f.tracestate"
    "  FROM pawl_saga.tasks t JOIN pawl_saga.flows f USING (flow_uuid)"
    " WHERE t.worker = $1 AND t.state IN ('RUNNING', 'REVERTING') AND t.lease_until > clock_timestamp()";

std::string key_of(const std::string& flow, int node) {
    return flow + " " + std::to_string(node);
}

json value_of(const sql::Field& field) {
    return field.is_null() ? json() : field.json();
}

Job job_of(const sql::Row& row) {
    Job job;
    const int node = row["node"].as<int>();
    job.task = row["flow_uuid"].as<std::string>();
    job.key = key_of(job.task, node);
    job.name = row["name"].as<std::string>();
    job.handler = row["handler"].as<std::string>();
    job.token = row["token"].as<std::int64_t>();
    job.inputs = {{"result", nullptr}, {"failure", nullptr}, {"failures", nullptr}};
    try {
        job.context = value_of(row["arguments"]);
        for (const char* name : {"result", "failure", "failures"}) job.inputs[name] = value_of(row[name]);
    } catch (const UnexpectedAnswer& problem) {
        job.problem = problem.what();
    }
    job.options = {{"node", node}, {"action", row["action"].as<std::string>()}};
    if (!row["traceparent"].is_null())
        job.trace = Trace{row["traceparent"].as<std::string>(), row["tracestate"].text_or_empty()}.child();
    return job;
}

std::vector<Job> jobs(const sql::Rows& rows) {
    std::vector<Job> made;
    for (const auto& row : rows) made.push_back(job_of(row));
    return made;
}

// Results in the form of pawl_saga.report.
json reports_of(const std::vector<Finished>& results) {
    json reports = json::array();
    for (const Finished& one : results) {
        const Job& job = one.work->job;
        json report = {{"flow_uuid", job.task}, {"node", job.options.at("node")}, {"token", job.token}};
        report[one.outcome == Outcome::success ? "result" : "failure"] = one.value;
        if (one.outcome == Outcome::permanent_failure) report["failure"]["type"] = "permanent";
        reports.push_back(std::move(report));
    }
    return reports;
}

class SagaSource final : public WorkSource {
public:
    SagaSource(const WorkerSettings& settings, const std::string& processor)
        : processor_(processor), queue_(settings.queue), lease_(std::to_string(settings.lease.count()) + " ms") {}

    void prepare(pqxx::connection&) override {}

    std::vector<Job> claim(pqxx::connection& connection, int limit) override {
        return jobs(sql::run_alone(connection, claim_statement, processor_, queue_, limit, lease_));
    }

    std::vector<Job> owned(pqxx::connection& connection) override {
        return jobs(sql::run_alone(connection, owned_statement, processor_));
    }

    // A repeated report is accepted again, so doubt needs no handling.
    std::set<std::string> report(pqxx::connection& connection, const std::vector<Finished>& results, bool) override {
        std::set<std::string> accepted;
        for (const auto& row :
             run_traced(connection, results.front().work->job.trace,
                        "SELECT r.flow_uuid, r.node FROM pawl_saga.report($1::jsonb, $2) r WHERE r.ok",
                        json_text(reports_of(results)), processor_))
            accepted.insert(key_of(row[0].as<std::string>(), row[1].as<int>()));
        return accepted;
    }

    bool reports_as_it_claims() const noexcept override { return true; }

    Exchanged report_and_claim(pqxx::connection& connection, const std::vector<Finished>& results, int limit) override {
        Exchanged exchanged;
        for (const auto& row : sql::run_alone(connection, report_and_claim_statement, json_text(reports_of(results)),
                                              processor_, queue_, limit, lease_)) {
            if (row["ok"].is_null())
                exchanged.claimed.push_back(job_of(row));
            else if (row["ok"].as<bool>())
                exchanged.accepted.insert(key_of(row["flow_uuid"].as<std::string>(), row["node"].as<int>()));
        }
        return exchanged;
    }

    OwnedTokens extend_leases(pqxx::connection& connection) override {
        sql::run_alone(connection, "SELECT pawl.heartbeat('pawl_saga.tasks', $1, $2::interval)", processor_, lease_);
        OwnedTokens owned;
        for (const auto& row : sql::run_alone(
                 connection, "SELECT t.flow_uuid, t.node, t.token FROM pawl_saga.tasks t WHERE t.worker = $1",
                 processor_))
            owned.emplace(key_of(row[0].as<std::string>(), row[1].as<int>()), row[2].as<std::int64_t>());
        return owned;
    }

    // The tasks behind a finished one (before it, in a revert) keep their states and become claimable.
    bool releases_without_message() const noexcept override { return true; }

    const std::string& relation() const noexcept override { return relation_; }

    Channel channel() const override { return {relation_, queue_}; }

    std::unique_ptr<WorkSource> copy() const override { return std::make_unique<SagaSource>(*this); }

private:
    std::string processor_, queue_, lease_;
    std::string relation_ = "pawl_saga.tasks";
};

}  // namespace

std::unique_ptr<WorkSource> make_saga_source(const WorkerSettings& settings, const std::string& processor) {
    return std::make_unique<SagaSource>(settings, processor);
}

}  // namespace pawl
