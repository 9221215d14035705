// May throw. Where a worker's work comes from: the steps of workflows, the tasks of flows, or any enforced table. Knows SQL and nothing of threads.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <pawl/worker.hpp>

#include "broker.hpp"
#include "hand.hpp"
#include "json_text.hpp"
#include "sql.hpp"

namespace pawl {

using Held = std::set<std::pair<std::string, std::int64_t>>;  // keys with their tokens

class WorkSource {
public:
    virtual ~WorkSource() = default;

    // Once a connection: what only the database knows.
    virtual void prepare(pqxx::connection& connection) = 0;

    // move_on: what depends on results first, in the same round trip, where somebody must.
    virtual std::vector<Job> claim(pqxx::connection& connection, int batch, bool move_on) = 0;

    // The rows that messages name, as far as they can be taken. Who has more to look at than a row takes as many of the next ones.
    virtual std::vector<Job> claim_told(pqxx::connection& connection, const std::vector<RowKey>& keys) {
        return claim(connection, static_cast<int>(keys.size()), false);
    }

    // What is ours already: after a loss of the connection nobody knows what the last claim did.
    virtual std::vector<Job> recover(pqxx::connection& connection) = 0;

    // Reports results in one transaction, which belongs to the trace of the first; returns the keys whose results count.
    // `in_doubt`: an earlier report of the same may have been committed.
    virtual std::set<std::string> report(pqxx::connection& connection, const std::vector<Finished>& results, bool in_doubt) = 0;

    // Extends the leases and says what is ours.
    virtual Held beat(pqxx::connection& connection) = 0;

    // Moves on what depends on results, where somebody must; true if there was something.
    virtual bool follow_up(pqxx::connection&) { return false; }

    // Whether reports make work claimable that no transition, and so no message, tells of: it is looked for.
    virtual bool releases_untold() const noexcept { return false; }

    virtual const std::string& relation() const noexcept = 0;

    // Where messages of this work go; known when it is prepared.
    virtual Channel channel() const = 0;

    // One for another thread and connection.
    virtual std::unique_ptr<WorkSource> copy() const = 0;
};

std::unique_ptr<WorkSource> make_step_source(const WorkerSettings& settings, const std::string& processor);
std::unique_ptr<WorkSource> make_table_source(const WorkerSettings& settings, const std::string& processor);
std::unique_ptr<WorkSource> make_saga_source(const WorkerSettings& settings, const std::string& processor);

// One statement in a transaction that belongs to the trace, if there is one. (Defined here, as it takes any arguments.)
template <typename... Arguments>
sql::Rows run_traced(pqxx::connection& connection, const Trace& trace, const std::string& statement, const Arguments&... arguments) {
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
