// May throw.
#include "duties.hpp"

#include <algorithm>
#include <cmath>

#include "sql.hpp"

namespace pawl::daemon {
namespace {

// What this program was built with.
constexpr const char* version = PAWL_VERSION;

const std::string in_ms = "CASE WHEN isfinite(next_at) THEN extract(epoch FROM next_at - clock_timestamp()) * 1000 END";

// A duty is named by its table, and by its state column if the table has several bindings.
const std::string named =
    "b.relation::text || CASE WHEN (SELECT count(*) FROM pawl.binding o WHERE o.relation = b.relation) > 1 THEN ' ' || "
    "b.state_column ELSE '' END";

// Expired leases and timers, each binding in a transaction of its own.
const std::string of_bindings =
    "SELECT d.duty, " + named +
    ", b.relation::oid, b.state_column"
    "  FROM pawl.binding b"
    "  CROSS JOIN LATERAL (VALUES ('reap', b.on_expiry IS NOT NULL AND b.lease_column IS NOT NULL), ('fire_due', "
    "b.due_column IS NOT NULL))"
    "       d(duty, wanted)"
    " WHERE d.wanted AND has_table_privilege(b.relation, 'SELECT') AND has_any_column_privilege(b.relation, 'UPDATE')"
    " ORDER BY d.duty DESC, b.relation, b.state_column";

// Logs and audits with a declared retention that this role may prune.
const std::string of_logs =
    "SELECT DISTINCT " + named + ", b.relation::oid, b.state_column FROM pawl.upkeep_of(NULL, NULL) b ORDER BY 2, 3";

// A duty of a pack is a function (batch integer, OUT done, OUT next_at). Functions named run_sql_... run users'
// handlers, which can take long: they have lanes of their own. pawl_bulk.advance is left out, because a procedure does
// its work and commits attempts.
constexpr const char* of_packs =
    "SELECT p.proname, format('%I.%I', n.nspname, p.proname)"
    "  FROM pg_extension x JOIN pg_namespace n ON n.oid = x.extnamespace OR n.nspname = x.extname"
    "  JOIN pg_proc p ON p.pronamespace = n.oid"
    " WHERE x.extname ^@ 'pawl_' AND p.proargnames = '{batch,done,next_at}' AND p.proargmodes = '{i,o,o}'"
    "   AND p.proname !~ '^(_|run_sql_)' AND (x.extname, p.proname) <> ('pawl_bulk', 'advance') AND "
    "has_function_privilege(p.oid, 'EXECUTE') GROUP BY 1, 2 ORDER BY 2";

bool there_is(pqxx::connection& connection, const std::string& function) {
    return sql::run_alone(connection,
                          "SELECT coalesce(has_function_privilege(to_regprocedure($1)::oid, 'EXECUTE'), false)",
                          function)[0][0]
        .as<bool>();
}

// The setting skip names "reap", "reap jobs" or, if the table has several bindings, "reap jobs state".
bool is_skipped(const Settings& settings, const std::string& name) {
    for (auto end = name.find(' '); end != std::string::npos; end = name.find(' ', end + 1))
        if (settings.skip.contains(name.substr(0, end))) return true;
    return settings.skip.contains(name);
}

std::vector<Duty> scheduling_duties(pqxx::connection& connection, const Settings& settings) {
    std::vector<Duty> duties;
    // first, because work depends on it; leases and timers have waited already
    if (there_is(connection, "pawl_dag.orchestrate(integer)"))
        duties.push_back(
            {.name = "orchestrate", .statement = "SELECT tasks, NULL FROM pawl_dag.orchestrate($1::integer)"});
    if (there_is(connection, "pawl.reap(regclass,integer,name)"))
        for (const auto& row : sql::run_alone(connection, of_bindings)) {
            const auto duty = row[0].as<std::string>();
            duties.push_back(
                {.name = duty + " " + row[1].as<std::string>(),
                 .statement = "SELECT done, " + in_ms + " FROM pawl." + duty + "($2::oid::regclass, $1::integer, $3)",
                 .oid = row[2].as<std::string>(),
                 .state_column = row[3].as<std::string>()});
        }
    for (const auto& row : sql::run_alone(connection, of_packs))
        duties.push_back(
            {.name = row[0].as<std::string>(),
             .statement = "SELECT done, " + in_ms + " FROM " + row[1].as<std::string>() + "($1::integer)"});
    if (there_is(connection, "pawl_bulk.work_operations(integer,interval,bigint,integer)"))
        duties.push_back({.name = "advance", .statement = "CALL pawl_bulk.work_operations($1::integer)"});
    if (there_is(connection, "pawl.prune_events(interval)"))
        duties.push_back({.name = "prune_events",
                          .statement = "SELECT pawl.prune_events(), NULL WHERE $1::integer IS NOT NULL",
                          .once = true,
                          .longest = std::chrono::minutes(1)});
    if (there_is(connection, "pawl.tend_logs(regclass,integer,name)"))
        for (const auto& row : sql::run_alone(connection, of_logs))
            duties.push_back(
                {.name = "tend_logs " + row[0].as<std::string>(),
                 .statement = "SELECT done, " + in_ms +
                              " FROM pawl.tend_logs($2::oid::regclass, least(20 * $1::integer, 1000000), $3)",
                 .oid = row[1].as<std::string>(),
                 .state_column = row[2].as<std::string>(),
                 .once = true,
                 .longest = std::chrono::hours(1)});
    if (there_is(connection, "pawl_api.prune_answers(interval,integer)"))
        duties.push_back({.name = "prune_answers",
                          .statement = "SELECT pawl_api.prune_answers(batch => $1::integer), NULL",
                          .once = true,
                          .longest = std::chrono::minutes(1)});
    for (const OwnDuty& own : settings.duties)
        duties.push_back({.name = own.name, .statement = own.sql, .plain = true, .once = true, .longest = own.every});
    return duties;
}

}  // namespace

bool is_same(const Duty& one, const Duty& other) noexcept {
    return one.name == other.name && one.statement == other.statement && one.oid == other.oid &&
           one.state_column == other.state_column;
}

std::vector<Duty> find_duties(pqxx::connection& connection, const Settings& settings, Kind kind) {
    std::vector<Duty> duties;
    if (kind == Kind::scheduling)
        duties = scheduling_duties(connection, settings);
    else {
        // they commit before and after each handler: one that ends its session has used an attempt, and a long one
        // delays no other result
        if (there_is(connection, "pawl_dag.work_sql_steps(integer,interval,integer)"))
            duties.push_back({.name = "run_sql_steps",
                              .statement = "CALL pawl_dag.work_sql_steps($1::integer)",
                              .relation = "pawl_dag.steps"});
        // a batch pays for a set-based handler
        if (there_is(connection, "pawl_bulk.work_sql_rows(integer,interval,bigint,integer)"))
            duties.push_back({.name = "run_sql_rows",
                              .statement = "CALL pawl_bulk.work_sql_rows(least(10 * $1::integer, 5000))",
                              .relation = "pawl_bulk.work"});
        if (there_is(connection, "pawl_bulk.work_sql_notices(integer,interval,bigint,integer)"))
            duties.push_back({.name = "run_sql_notices",
                              .statement = "CALL pawl_bulk.work_sql_notices($1::integer)",
                              .relation = "pawl_bulk.notices"});
        if (there_is(connection, "pawl_saga.work_sql_tasks(integer,interval,integer)"))
            duties.push_back({.name = "run_sql_tasks",
                              .statement = "CALL pawl_saga.work_sql_tasks($1::integer)",
                              .relation = "pawl_saga.tasks"});
    }
    std::erase_if(duties, [&](const Duty& duty) {
        // by default the duty is the conductor of the default board
        return (duty.name == "conduct" && settings.boards.contains("default")) || is_skipped(settings, duty.name);
    });
    return duties;
}

std::string misfit_of(pqxx::connection& connection) {
    const sql::Rows found =
        sql::run_alone(connection,
                       "SELECT coalesce(string_agg(format('%s %s', x.extname, x.extversion), ', ' ORDER BY x.extname)"
                       "         FILTER (WHERE x.extversion <> $1), ''), bool_or(x.extname = 'pawl') FROM pg_extension "
                       "x WHERE x.extname ~ '^pawl($|_)'",
                       version);
    if (found[0][1].is_null()) return "the extension pawl is not installed";
    const auto other = found[0][0].as<std::string>();
    return other.empty()
               ? ""
               : "pawld is " + std::string(version) + ", but installed is " + other + ": ALTER EXTENSION ... UPDATE";
}

Report run_duty(pqxx::connection& connection, const Duty& duty, int batch) {
    const sql::Rows rows = duty.plain ? sql::run_alone(connection, duty.statement)
                           : duty.oid.empty()
                               ? sql::run_alone(connection, duty.statement, batch)
                               : sql::run_alone(connection, duty.statement, batch, duty.oid, duty.state_column);
    Report report;
    if (rows.empty() || rows.columns() == 0) return report;
    // a duty of a user's own may return anything
    const auto bounded = [&](int column) {
        return static_cast<std::int64_t>(std::min(std::fmax(rows[0][column].as<double>(), 0.0), 1e12));
    };
    if (!rows[0][0].is_null()) report.done = bounded(0);
    if (!duty.plain && rows.columns() > 1 && !rows[0][1].is_null())
        report.next = std::chrono::milliseconds(bounded(1) + 1);
    return report;
}

}  // namespace pawl::daemon
