// May throw. Steps of workflows as work.
#include <algorithm>

#include "sql.hpp"
#include "work_source.hpp"

namespace pawl {
namespace {

using nlohmann::json;

constexpr const char* claim_statement =
    "SELECT c.task_uuid, c.step_uuid, c.name, c.handler, c.handler_options, c.token, c.attempts,"
    "       c.context, c.parents, c.correlation_id, c.traceparent, c.tracestate"
    "  FROM pawl_dag.claim($1, $2, $3::integer, $4::interval, $5::integer) c";

constexpr const char* orchestrated_tasks = "100";  // in one claim

constexpr const char* claim_keys_statement =
    "SELECT c.task_uuid, c.step_uuid, c.name, c.handler, c.handler_options, c.token, c.attempts,"
    "       c.context, c.parents, c.correlation_id, c.traceparent, c.tracestate"
    "  FROM pawl_dag.claim($1, $2, lease => $3::interval, keys => $4::text[]) c";

constexpr const char* owned_statement =
    "SELECT s.task_uuid, s.step_uuid, s.name, s.handler, s.handler_options, s.token, s.attempts,"
    "       i.context, i.parents, i.correlation_id, i.traceparent, i.tracestate"
    "  FROM pawl_dag.steps s CROSS JOIN LATERAL pawl_dag.step_inputs(ARRAY[s.task_uuid], ARRAY[s.step_uuid]) i"
    " WHERE s.worker_uuid = $1::uuid AND s.state = 'in_progress' AND s.lease_until > clock_timestamp()";

constexpr const char* report_and_claim_statement =
    "SELECT r.task_uuid, r.step_uuid, r.name, r.handler, r.handler_options, r.token, r.attempts,"
    "       r.context, r.parents, r.correlation_id, r.traceparent, r.tracestate, r.ok"
    "  FROM pawl_dag.report_and_claim($1::jsonb, $2, $3, $4::integer, $5::interval, $6::integer) r";
constexpr int ok_column = 12;

// Raises PW009 unless the rows of the namespace are here: until they leave, results can be reported.
constexpr const char* require_rows_statement =
    "SELECT pawl.require_here('dag', $1) WHERE NOT EXISTS (SELECT FROM pawl.departure d"
    " WHERE d.kind = 'dag' AND d.namespace = $1 AND d.phase = 'closed')";

// A result in the form of pawl_dag.report.
json report_of(const Finished& one) {
    const Job& job = one.work->job;
    json report = {{"task_uuid", job.task}, {"step_uuid", job.key}, {"token", job.token}};
    if (one.outcome == Outcome::success) {
        report["result"] = one.value;
        return report;
    }
    report["error"] = one.value;
    if (one.outcome == Outcome::permanent_failure) report["error"]["permanent"] = true;
    if (one.retry_after)
        report["error"]["retry_after"] =
            static_cast<double>(std::max<std::int64_t>(one.retry_after->count(), 0)) / 1000;
    return report;
}

json reports_of(const std::vector<Finished>& results) {
    json reports = json::array();
    for (const Finished& one : results) reports.push_back(report_of(one));
    return reports;
}

Job job_of(const sql::Row& row) {
    Job job;
    job.task = row[0].as<std::string>();
    job.key = row[1].as<std::string>();
    job.name = row[2].as<std::string>();
    job.handler = row[3].as<std::string>();
    job.token = row[5].as<std::int64_t>();
    job.attempt = row[6].as<int>();
    try {
        job.options = row[4].json();
        job.context = row[7].json();
        job.inputs = json::object();
        const json parents = row[8].json();
        for (const auto& parent : parents.items()) job.inputs[parent.key()] = parent.value().at("result");
    } catch (const UnexpectedAnswer& problem) {
        job.problem = problem.what();
    } catch (const json::exception& problem) {
        job.problem = problem.what();
    }
    job.correlation_id = row[9].as<std::string>();
    if (!row[10].is_null()) job.trace = Trace{row[10].as<std::string>(), row[11].text_or_empty()}.child();
    return job;
}

std::vector<Job> jobs(const sql::Rows& rows) {
    std::vector<Job> made;
    for (const auto& row : rows) made.push_back(job_of(row));
    return made;
}

class StepSource final : public WorkSource {
public:
    StepSource(const WorkerSettings& settings, const std::string& processor)
        : processor_(processor),
          queue_(settings.queue),
          lease_(std::to_string(settings.lease.count()) + " ms"),
          placed_(settings.placed),
          orchestrate_(settings.orchestrate) {}

    void prepare(pqxx::connection& connection) override { require_rows(connection); }

    std::vector<Job> claim(pqxx::connection& connection, int limit) override {
        return jobs(sql::run_alone(connection, claim_statement, processor_, queue_, limit, lease_,
                                   orchestrate_ ? orchestrated_tasks : nullptr));
    }

    std::vector<Job> claim_keys(pqxx::connection& connection, const std::vector<RowKey>& keys) override {
        return jobs(
            sql::run_alone(connection, claim_keys_statement, processor_, queue_, lease_, sql::keys_array(keys)));
    }

    std::vector<Job> owned(pqxx::connection& connection) override {
        return jobs(sql::run_alone(connection, owned_statement, processor_));
    }

    // A repeated report is accepted again, so doubt needs no handling.
    std::set<std::string> report(pqxx::connection& connection, const std::vector<Finished>& results, bool) override {
        std::set<std::string> accepted;
        for (const auto& row : run_traced(connection, results.front().work->job.trace,
                                          "SELECT r.step_uuid, r.ok, coalesce(r.problem, '') "
                                          "FROM pawl_dag.report($1::jsonb, $2) r",
                                          json_text(reports_of(results)), processor_)) {
            const auto problem = row[2].as<std::string>();
            if (placed_ && problem.starts_with(error::placed_elsewhere::sqlstate_of_class))
                throw error::placed_elsewhere(error::placed_elsewhere::sqlstate_of_class, problem);
            if (row[1].as<bool>()) accepted.insert(row[0].as<std::string>());
        }
        return accepted;
    }

    bool reports_as_it_claims() const noexcept override { return orchestrate_; }

    Exchanged report_and_claim(pqxx::connection& connection, const std::vector<Finished>& results, int limit) override {
        Exchanged exchanged;
        for (const auto& row : sql::run_alone(connection, report_and_claim_statement, json_text(reports_of(results)),
                                              processor_, queue_, limit, lease_, orchestrated_tasks)) {
            if (row[ok_column].is_null())
                exchanged.claimed.push_back(job_of(row));
            else if (row[ok_column].as<bool>())
                exchanged.accepted.insert(row[1].as<std::string>());
        }
        return exchanged;
    }

    OwnedTokens extend_leases(pqxx::connection& connection) override {
        sql::run_alone(connection, "SELECT pawl.heartbeat('pawl_dag.steps', $1, $2::interval)", processor_, lease_);
        OwnedTokens owned;
        for (const auto& row : sql::run_alone(
                 connection, "SELECT s.step_uuid, s.token FROM pawl_dag.steps s WHERE s.worker_uuid = $1::uuid",
                 processor_))
            owned.emplace(row[0].as<std::string>(), row[1].as<std::int64_t>());
        require_rows(connection);  // where they have left, it owns none, and has not lost its leases
        return owned;
    }

    bool orchestrate(pqxx::connection& connection) override {
        return orchestrate_ &&
               sql::run_alone(connection, "SELECT o.tasks FROM pawl_dag.orchestrate(100) o")[0][0].as<int>() > 0;
    }

    const std::string& relation() const noexcept override { return relation_; }

    Channel channel() const override { return {relation_, queue_}; }

    std::unique_ptr<WorkSource> copy() const override { return std::make_unique<StepSource>(*this); }

private:
    void require_rows(pqxx::connection& connection) const {
        if (placed_) sql::run_alone(connection, require_rows_statement, queue_);
    }

    std::string processor_;
    std::string queue_;
    std::string lease_;
    std::string relation_ = "pawl_dag.steps";
    bool placed_;
    bool orchestrate_;
};

}  // namespace

std::unique_ptr<WorkSource> make_step_source(const WorkerSettings& settings, const std::string& processor) {
    return std::make_unique<StepSource>(settings, processor);
}

}  // namespace pawl
