// May throw. What a Worker claims from: steps of workflows, tasks of flows, or rows of any enforced table. SQL, and no
// threads.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <pawl/worker.hpp>

#include "broker.hpp"
#include "in_flight.hpp"
#include "json_text.hpp"
#include "sql.hpp"

namespace pawl {

// Not thread-safe: each thread uses a copy() of its own. Methods with a connection throw pawl::Error.
class WorkSource {
public:
    virtual ~WorkSource() = default;

    // Called once for each connection, before any other method that takes it: reads what only the database knows.
    virtual void prepare(pqxx::connection& connection) = 0;

    // Claims up to `limit` jobs. Before that, in the same round trip, it moves on what depends on results, if that is
    // the caller's duty.
    virtual std::vector<Job> claim(pqxx::connection& connection, int limit) = 0;

    // Claims those of the rows that are still claimable. A source that cannot claim by key claims as many of the next
    // rows.
    virtual std::vector<Job> claim_keys(pqxx::connection& connection, const std::vector<RowKey>& keys) {
        return claim(connection, static_cast<int>(keys.size()));
    }

    // What this processor owns: after a lost connection the outcome of the last claim is unknown.
    virtual std::vector<Job> owned(pqxx::connection& connection) = 0;

    // Reports results in one transaction, which belongs to the trace of the first. Returns the keys whose results were
    // accepted. in_doubt: an earlier report of the same results may have been committed.
    virtual std::set<std::string> report(pqxx::connection& connection, const std::vector<Finished>& results,
                                         bool in_doubt) = 0;

    // Reports results without traces and claims up to `limit` jobs in one transaction, if the source can. What it
    // throws is told by report() and claim() apart: nothing was recorded, unless the session was lost.
    struct Exchanged {
        std::set<std::string> accepted;
        std::vector<Job> claimed;
    };
    virtual bool reports_as_it_claims() const noexcept { return false; }
    virtual Exchanged report_and_claim(pqxx::connection&, const std::vector<Finished>&, int) { return {}; }

    // Extends the leases of this processor and returns what it owns.
    virtual OwnedTokens extend_leases(pqxx::connection& connection) = 0;

    // Moves on what depends on results, if that is the caller's duty. True if there was something.
    virtual bool orchestrate(pqxx::connection&) { return false; }

    // True if reports make work claimable without a state change: no message announces it, so it must be polled for.
    virtual bool releases_without_message() const noexcept { return false; }

    virtual const std::string& relation() const noexcept = 0;

    // Where messages about this work go. Known after prepare().
    virtual Channel channel() const = 0;

    // For another thread and connection.
    virtual std::unique_ptr<WorkSource> copy() const = 0;
};

std::unique_ptr<WorkSource> make_step_source(const WorkerSettings& settings, const std::string& processor);
std::unique_ptr<WorkSource> make_table_source(const WorkerSettings& settings, const std::string& processor);
std::unique_ptr<WorkSource> make_saga_source(const WorkerSettings& settings, const std::string& processor);

// One statement, in a transaction that belongs to the trace unless that is empty.
template <typename... Arguments>
sql::Rows run_traced(pqxx::connection& connection, const Trace& trace, const std::string& statement,
                     const Arguments&... arguments) {
    if (trace.empty()) return sql::run_alone(connection, statement, arguments...);
    return sql::translated([&] {
        pqxx::work transaction(connection);
        set_trace(transaction, trace);
        sql::Rows result = sql::run(transaction, statement, arguments...);
        sql::commit(transaction);
        return result;
    });
}

}  // namespace pawl
