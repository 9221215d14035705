// May throw. See apply.hpp.
#include "lifecycle/apply.hpp"

#include "sql.hpp"

namespace pawl::cli {
namespace {

// One session applies at a time. $1: whether to wait for the others.
constexpr const char* turn_statement =
    "SELECT pawl.acquire_lock(pg_catalog.hashtextextended('pawl apply', 0), wait => $1)";
constexpr const char* lock_timeout_statement = "SELECT pg_catalog.set_config('lock_timeout', $1, true)";

void take_turn(pqxx::transaction_base& transaction, const std::function<void()>& waiting) {
    if (sql::run(transaction, turn_statement, false)[0][0].as<bool>()) return;
    waiting();
    sql::run(transaction, turn_statement, true);
}

std::vector<std::string> statements_of(const Plan& plan) {
    std::vector<std::string> statements;
    for (const Step& step : plan.steps) statements.push_back(step.sql);
    return statements;
}

void run_steps(pqxx::transaction_base& transaction, const Plan& plan,
               const std::function<void(std::size_t)>& before_step) {
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
        before_step(i);
        sql::run(transaction, plan.steps[i].sql);
    }
}

// What the steps were to lead to. It also sees what another session committed meanwhile.
void check_arrived(pqxx::transaction_base& transaction, std::vector<Lifecycle>& lifecycles) {
    const Plan left = make_plan(transaction, lifecycles);
    if (left.steps.empty() && left.problems.empty()) return;
    throw Error("55000", "the database is not as the files say after all steps\nDETAIL:  Left: " +
                             (left.steps.empty() ? left.problems.front() : left.steps.front().title) +
                             ".\nHINT:  run pawl plan again: another session may have changed lifecycles meanwhile");
}

}  // namespace

Plan plan_alone(pqxx::connection& connection, std::vector<Lifecycle>& lifecycles, const std::string& lock_timeout) {
    return sql::translated([&] {
        pqxx::work transaction(connection);
        sql::run(transaction, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY");
        sql::run(transaction, lock_timeout_statement, lock_timeout);
        return make_plan(transaction, lifecycles);
    });
}

Applied apply_plan(pqxx::connection& connection, std::vector<Lifecycle>& lifecycles, const Plan& shown,
                   const ApplyOptions& options, const std::function<void(std::size_t)>& before_step,
                   const std::function<void()>& waiting) {
    return sql::translated([&] {
        pqxx::work transaction(connection);
        sql::run(transaction, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE");
        take_turn(transaction, waiting);
        sql::run(transaction, lock_timeout_statement, options.lock_timeout);
        const Plan plan = make_plan(transaction, lifecycles);
        if (plan.steps.empty() && plan.problems.empty()) return Applied::nothing_to_do;
        if (plan.fingerprint != shown.fingerprint || statements_of(plan) != statements_of(shown) ||
            !plan.problems.empty())
            return Applied::changed_since;
        run_steps(transaction, plan, before_step);
        check_arrived(transaction, lifecycles);
        if (options.dry_run) return Applied::undone;
        sql::commit(transaction);
        return Applied::done;
    });
}

}  // namespace pawl::cli
