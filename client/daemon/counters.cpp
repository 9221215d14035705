// May throw.
#include "counters.hpp"

#include <nlohmann/json.hpp>

#include "sql.hpp"

namespace pawl::daemon {
namespace {

// One statement, so that all families are of the same moment. Columns: family, labels as pairs, number, seconds,
// buckets.
constexpr const char* all_counters =
    "WITH c AS MATERIALIZED (SELECT * FROM pawl.counters()),"
    " h AS (SELECT r.role, c.machine, CASE r.role WHEN 'completion' THEN coalesce(c.event, '') END AS event, "
    "c.seconds, b.n, b.count"
    "   FROM c CROSS JOIN unnest(c.roles) r(role) CROSS JOIN unnest(c.buckets) WITH ORDINALITY b(count, n) WHERE "
    "r.role IN ('claim', 'completion') AND c.timed > 0)"
    " SELECT 'transition', jsonb_build_array('machine', c.machine, 'version', c.machine_version::text, 'from', "
    "coalesce(c.from_state, ''), 'to', coalesce(c.to_state, ''),"
    "   'event', coalesce(c.event, '')), sum(c.count)::bigint, 0::float8, '[]'::jsonb FROM c WHERE c.kind = "
    "'transition' AND "
    "c.machine IS NOT NULL"
    "   GROUP BY c.machine, c.machine_version, c.from_state, c.to_state, c.event"
    " UNION ALL SELECT 'rejection', jsonb_build_array('machine', coalesce(c.machine, ''), 'sqlstate', c.sqlstate), "
    "sum(c.count)::bigint, 0, '[]' FROM c"
    "   WHERE c.sqlstate IS NOT NULL GROUP BY c.machine, c.sqlstate"
    " UNION ALL SELECT r.role, jsonb_build_array('machine', c.machine), sum(c.count)::bigint, 0, '[]' FROM c CROSS "
    "JOIN unnest(c.roles) r(role)"
    "   WHERE r.role IN ('expiry', 'retry', 'timer') GROUP BY r.role, c.machine"
    " UNION ALL SELECT x.role || ' latency', CASE x.role WHEN 'claim' THEN jsonb_build_array('machine', x.machine) "
    "ELSE jsonb_build_array('machine', x.machine, 'event', x.event) END,"
    "   0, sum(x.seconds), jsonb_agg(x.count ORDER BY x.n)"
    "   FROM (SELECT h.role, h.machine, h.event, h.n, sum(h.count)::bigint AS count, sum(h.seconds) FILTER (WHERE h.n "
    "= 1) AS seconds FROM h GROUP BY 1, 2, 3, 4) x"
    "   GROUP BY x.role, x.machine, x.event"
    " UNION ALL SELECT 'lost', '[]', coalesce(sum(c.count), 0)::bigint, 0, '[]' FROM c WHERE c.machine IS NULL AND "
    "c.sqlstate IS NULL"
    " ORDER BY 1, 2";

struct Family {
    const char* kind;
    const char* name;
    const char* help;
};

constexpr Family totals[] = {
    {"transition", "pawl_transitions_total", "Committed state changes, by machine and transition."},
    {"rejection", "pawl_rejections_total", "Rejections of class PW, also of transactions that were rolled back."},
    {"expiry", "pawl_lease_expiries_total", "Rows whose owner lost them because the lease had expired."},
    {"retry", "pawl_retries_total", "Rows that will be retried."},
    {"timer", "pawl_timers_fired_total", "State changes by timers."},
    {"lost", "pawl_counters_lost_total",
     "State changes and rejections that did not fit into the table, in all databases of the server."},
};
constexpr Family histograms[] = {
    {"claim latency", "pawl_claim_latency_seconds", "How long rows were in the state from which they were claimed."},
    {"completion latency", "pawl_completion_latency_seconds",
     "How long rows were in the owned state that they left by this event."},
};

Labels labels_of(const sql::Field& pairs) {
    Labels labels;
    const auto list = pairs.json();
    for (std::size_t i = 0; i + 1 < list.size(); i += 2)
        labels.emplace_back(list[i].get<std::string>(), list[i + 1].get<std::string>());
    return labels;
}

std::vector<double> bounds_of(pqxx::connection& connection) {
    std::vector<double> bounds;
    for (const auto& row : sql::run_alone(connection, "SELECT b FROM unnest(pawl.counter_bounds()) b ORDER BY b"))
        bounds.push_back(row[0].as<double>());
    return bounds;
}

}  // namespace

void read_counters(pqxx::connection& connection, Exposition& out) {
    const bool counted = sql::run_alone(connection, "SELECT pawl.counted_since() IS NOT NULL")[0][0].as<bool>();
    out.family("pawl_counters_preloaded", "gauge",
               "1 if pawl is in shared_preload_libraries; otherwise state changes and rejections are not counted.");
    out.sample({}, counted ? 1 : 0);
    if (!counted) return;
    const sql::Rows rows = sql::run_alone(connection, all_counters);
    for (const Family& family : totals) {
        out.family(family.name, "counter", family.help);
        for (const auto& row : rows)
            if (row[0].as<std::string>() == family.kind) out.sample(labels_of(row[1]), row[2].as<std::int64_t>());
    }
    const auto bounds = bounds_of(connection);
    for (const Family& family : histograms) {
        out.family(family.name, "histogram", family.help);
        for (const auto& row : rows)
            if (row[0].as<std::string>() == family.kind)
                out.histogram(labels_of(row[1]), bounds, row[4].json().get<std::vector<std::uint64_t>>(),
                              row[3].as<double>());
    }
}

}  // namespace pawl::daemon
