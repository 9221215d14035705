// May throw.
#include "gauges.hpp"

#include <nlohmann/json.hpp>

#include "counters.hpp"
#include "sql.hpp"

namespace pawl::daemon {
namespace {

// Rows of (metric, help, labels as pairs, value), ordered by metric.
constexpr const char* of_bindings =
    "WITH q AS MATERIALIZED (SELECT * FROM pawl.queue_depth), o AS MATERIALIZED (SELECT * FROM pawl.owners), t AS "
    "MATERIALIZED (SELECT * FROM pawl.timers),"
    " g(ordinal, metric, meaning, labels, value) AS ("
    " SELECT 1, 'pawl_queue_claimable', 'Rows that can be claimed now; counted to 10000.', ARRAY['relation', "
    "q.relation::text, 'queue', q.queue], q.claimable::float8 FROM q"
    " UNION ALL SELECT 2, 'pawl_queue_due_later', 'Rows that can be claimed after their due time.', ARRAY['relation', "
    "q.relation::text, 'queue', q.queue], q.due_later FROM q"
    " UNION ALL SELECT 3, 'pawl_queue_owned', 'Rows that have an owner.', ARRAY['relation', q.relation::text, 'queue', "
    "q.queue], q.owned FROM q"
    " UNION ALL SELECT 4, 'pawl_queue_oldest_seconds', 'How long the next row has waited.', ARRAY['relation', "
    "q.relation::text, 'queue', q.queue],"
    "   extract(epoch FROM q.oldest) FROM q WHERE q.oldest IS NOT NULL"
    " UNION ALL SELECT 5, 'pawl_queue_paused', '1 if the queue is paused.', ARRAY['relation', q.relation::text, "
    "'queue', q.queue], q.is_paused::integer FROM q"
    " UNION ALL SELECT 6, 'pawl_owners', 'Processors that own rows.', ARRAY['relation', o.relation::text], count(*) "
    "FROM o GROUP BY o.relation"
    " UNION ALL SELECT 7, 'pawl_owned_rows', 'Rows that are owned.', ARRAY['relation', o.relation::text], sum(o.owned) "
    "FROM o GROUP BY o.relation"
    " UNION ALL SELECT 8, 'pawl_leases_expired', 'Leases that have expired and wait for pawl.reap.', ARRAY['relation', "
    "o.relation::text], sum(o.expired) FROM o GROUP BY o.relation"
    " UNION ALL SELECT 9, 'pawl_lease_lag_seconds', 'How long ago the oldest of them expired.', ARRAY['relation', "
    "o.relation::text],"
    "   greatest(0, extract(epoch FROM clock_timestamp() - min(o.next_lease_end) FILTER (WHERE "
    "isfinite(o.next_lease_end)))) FROM o GROUP BY o.relation"
    " UNION ALL SELECT 10, 'pawl_timers_due', 'Timers that are due and wait for pawl.fire_due.', ARRAY['relation', "
    "t.relation::text], t.due FROM t"
    " UNION ALL SELECT 11, 'pawl_timers_lag_seconds', 'How long the oldest of them has been due.', ARRAY['relation', "
    "t.relation::text],"
    "   coalesce(extract(epoch FROM t.lag), 0) FROM t)"
    " SELECT metric, meaning, to_jsonb(array_replace(labels, NULL, '')), coalesce(value, 0) FROM g ORDER BY ordinal, "
    "labels";

// A role that is no member of pawl_operator sees its own consumers only.
constexpr const char* of_consumers =
    "WITH c AS MATERIALIZED (SELECT * FROM pawl.consumers), g(ordinal, metric, meaning, consumer, value) AS ("
    " SELECT 1, 'pawl_outbox_lag_seconds', 'Time since the oldest event that a consumer has not read was committed.', "
    "c.consumer, extract(epoch FROM c.age)::float8 FROM c"
    " UNION ALL SELECT 2, 'pawl_outbox_behind_events', 'Events that a consumer has not read; counted over 100000 "
    "transactions.', c.consumer, c.behind::float8 FROM c"
    " UNION ALL SELECT 3, 'pawl_outbox_missed_events', 'Events lost to retention and not reported to the consumer "
    "yet.', c.consumer, c.missed::float8 FROM c)"
    " SELECT metric, meaning, jsonb_build_array('consumer', consumer), value FROM g ORDER BY ordinal, consumer";

constexpr const char* of_workflows =
    "SELECT 'pawl_dag_tasks_to_orchestrate', 'Tasks that wait for an orchestrator; counted to 10000.', '[]'::jsonb, "
    "count(*)::float8"
    "  FROM (SELECT FROM pawl_dag.tasks t WHERE t.evaluate LIMIT 10000) e"
    " UNION ALL SELECT 'pawl_dag_dead_letters', 'Tasks that wait for a decision.', '[]', count(*)"
    "  FROM (SELECT FROM pawl_dag.dlq d WHERE d.resolution_status = 'pending' LIMIT 10000) d";

void append(Exposition& out, std::string& family, const sql::Rows& rows) {
    for (const auto& row : rows) {
        const auto metric = row[0].as<std::string>();
        if (metric != family) out.family(metric, "gauge", row[1].as<std::string>());
        family = metric;
        Labels labels;
        const auto pairs = row[2].json();
        for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
            labels.emplace_back(pairs[i].get<std::string>(), pairs[i + 1].get<std::string>());
        out.sample(labels, row[3].as<double>());
    }
}

}  // namespace

std::string read_gauges(pqxx::connection& connection) {
    Exposition out;
    std::string family;
    append(out, family, sql::run_alone(connection, of_bindings));
    append(out, family, sql::run_alone(connection, of_consumers));
    if (!sql::run_alone(connection, "SELECT FROM pg_extension x WHERE x.extname = 'pawl_dag'").empty())
        append(out, family, sql::run_alone(connection, of_workflows));
    read_counters(connection, out);
    return out.text();
}

}  // namespace pawl::daemon
