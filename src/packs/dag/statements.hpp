// Constants. The statements of a turn of the orchestrator, in their order. All run with search_path pg_catalog.
#pragma once

#include "fire/plans.hpp"

namespace pawl::dag {

// Tasks to pick, and what is read of them.
#define READ                                                                                               \
    "SELECT t.task_uuid, t.ctid, t.state, t.failure_policy = 'block', t.evaluate, t.steps_cancelled > 0, " \
    "t.steps_total, t.steps_ready, t.steps_in_flight, t.steps_waiting, t.steps_failed, "                   \
    "t.steps_satisfied + t.steps_cancelled, "
#define UNOWNED "(t.processor_uuid IS NULL OR t.processor_uuid = pawl_dag.engine()) AND "
#define TROUBLED "ARRAY(SELECT r.task_uuid FROM pawl_dag.troubles r WHERE r.again_at > clock_timestamp())"
// A worker's own report may release other steps than those that another session has locked.
#define TROUBLED_ITSELF                                                                       \
    "ARRAY(SELECT r.task_uuid FROM pawl_dag.troubles r WHERE r.again_at > clock_timestamp() " \
    "AND r.sqlstate <> '55P03')"
#define REPORTED(step) \
    "(" step ".state = 'enqueued_for_orchestration' OR " step ".state = 'enqueued_as_error_for_orchestration')"

// The tasks of results that wait, each once and in their order: the index is entered anew behind each task, so a task
// with many results costs no more than one with a single result. Rows are made as they are read, so what a LIMIT leaves
// out is not looked for; each task is looked up, checked and locked before the next one is looked for.
#define FIRST_REPORTED(more) \
    "SELECT s.task_uuid FROM pawl_dag.steps s WHERE " REPORTED("s") more " ORDER BY s.task_uuid LIMIT 1"
#define WITH_REPORTED                                                                        \
    "WITH RECURSIVE w(task) AS ((" FIRST_REPORTED("") ") UNION ALL SELECT (" FIRST_REPORTED( \
        " AND s.task_uuid > w.task") ") FROM w WHERE w.task IS NOT NULL) "
#define LOCKED(task, troubled)                                                                        \
    "FROM pawl_dag.tasks t WHERE t.task_uuid = " task " AND " UNOWNED "t.task_uuid <> ALL (" troubled \
    ") FOR NO KEY UPDATE SKIP LOCKED"

inline constexpr const char* pick_reported =
    WITH_REPORTED "SELECT l.* FROM w CROSS JOIN LATERAL (" READ "true " LOCKED("w.task", TROUBLED) ") l LIMIT $1";

// The same behind the tasks of which a worker reports steps itself, with whether each has other results, and whether a
// trouble is over.
#define TOLD "t.context, t.correlation_id, t.traceparent, t.tracestate "
#define HAS_REPORTED "EXISTS (SELECT FROM pawl_dag.steps s WHERE s.task_uuid = t.task_uuid AND " REPORTED("s") ")"
#define OVER "EXISTS (SELECT FROM pawl_dag.troubles o WHERE o.again_at <= clock_timestamp())"
inline constexpr const char* pick_with_own = WITH_REPORTED
    "SELECT l.* FROM (SELECT o.task, false AS reported FROM unnest($2) o(task) "
    "UNION ALL SELECT w.task, true FROM w WHERE w.task <> ALL ($2)) x "
    "CROSS JOIN LATERAL (" READ "x.reported OR " HAS_REPORTED ", " OVER ", " TOLD LOCKED(
        "x.task", "CASE WHEN x.reported THEN " TROUBLED " ELSE " TROUBLED_ITSELF " END") ") l LIMIT $1 + $3";

// The same if there are no other results, and no troubles.
inline constexpr const char* pick_own = READ "false, false, " TOLD "FROM pawl_dag.tasks t WHERE " UNOWNED
                                             "t.task_uuid = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED";

inline constexpr const char* pick_changed =
    READ "true FROM pawl_dag.tasks t WHERE " UNOWNED "t.evaluate AND t.task_uuid <> ALL (" TROUBLED
         ") "
         "ORDER BY t.rank DESC, t.task_uuid LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED";

// A session that changes a step by plain SQL has its row and waits for the task, which is ours: it is skipped. A wait
// that the worker asked for replaces the computed one, under the same cap.
inline constexpr const char* record_results =
    "UPDATE pawl_dag.steps s SET state = CASE WHEN s.state = 'enqueued_for_orchestration' THEN 'complete' "
    "WHEN s.retryable AND NOT s.permanent AND s.attempts < s.max_attempts THEN 'waiting_for_retry' ELSE 'error' END, "
    "next_retry_at = CASE WHEN s.backoff_request IS NOT NULL AND s.state = 'enqueued_as_error_for_orchestration' "
    "AND s.retryable AND NOT s.permanent AND s.attempts < s.max_attempts "
    "THEN clock_timestamp() + pawl.backoff(s.attempts, coalesce(s.backoff, '{}'), s.backoff_request) "
    "ELSE s.next_retry_at END "
    "FROM (SELECT x.ctid AS place FROM pawl_dag.steps x WHERE x.task_uuid = ANY ($1) AND " REPORTED("x")
    " FOR NO KEY UPDATE SKIP LOCKED) l WHERE s.ctid = l.place "
    "RETURNING s.task_uuid, s.step_uuid, pawl_dag._kind(s.state, s.unsatisfied_parents, s.optional)";

// `was` is the state before: a step that was enqueued already can wait for a parent that was reset.
inline constexpr const char* count_down =
    "UPDATE pawl_dag.steps c SET unsatisfied_parents = c.unsatisfied_parents - w.n, state = CASE WHEN w.goes_on "
    "AND c.state = 'pending' AND c.unsatisfied_parents = w.n THEN 'enqueued' ELSE c.state END "
    "FROM (SELECT f.*, o.state AS was FROM (SELECT e.task_uuid, e.child_uuid, count(*)::integer AS n, "
    "bool_and(x.goes_on) AS goes_on FROM unnest($1, $2, $3) x(task, step, goes_on) JOIN pawl_dag.edges e "
    "ON e.task_uuid = x.task AND e.parent_uuid = x.step GROUP BY e.task_uuid, e.child_uuid "
    "ORDER BY e.task_uuid, e.child_uuid) f JOIN pawl_dag.steps o ON o.task_uuid = f.task_uuid "
    "AND o.step_uuid = f.child_uuid) w WHERE c.task_uuid = w.task_uuid AND c.step_uuid = w.child_uuid "
    "RETURNING c.task_uuid, c.state = 'enqueued' AND w.was = 'pending', "
    "c.state = 'pending' AND c.unsatisfied_parents = 0";

inline constexpr const char* enqueue_ready =
    "UPDATE pawl_dag.steps s SET state = 'enqueued' FROM (SELECT x.ctid AS place FROM pawl_dag.steps x "
    "WHERE x.task_uuid = ANY ($1) AND x.state = 'pending' AND x.unsatisfied_parents = 0 "
    "FOR NO KEY UPDATE SKIP LOCKED) l WHERE s.ctid = l.place RETURNING s.task_uuid";

// The same after one step, which needs neither arrays nor sums.
inline constexpr const char* count_down_one =
    "UPDATE pawl_dag.steps c SET unsatisfied_parents = c.unsatisfied_parents - 1, state = CASE WHEN $3 "
    "AND c.state = 'pending' AND c.unsatisfied_parents = 1 THEN 'enqueued' ELSE c.state END "
    "FROM (SELECT e.task_uuid, e.child_uuid, o.state AS was FROM pawl_dag.edges e JOIN pawl_dag.steps o "
    "ON o.task_uuid = e.task_uuid AND o.step_uuid = e.child_uuid WHERE e.task_uuid = $1 AND e.parent_uuid = $2 "
    "ORDER BY e.child_uuid) w WHERE c.task_uuid = w.task_uuid AND c.step_uuid = w.child_uuid "
    "RETURNING c.task_uuid, c.state = 'enqueued' AND w.was = 'pending', "
    "c.state = 'pending' AND c.unsatisfied_parents = 0";

// The same, for a worker that also claims: children that belong to its claim are started in the same write. These are
// of its queue, precede what waits there, and have no timeout, which would cut the lease afterwards. Parameters from
// the fourth on: the queue, how many, the ranks of what waits (negative and ascending; the second time each with the
// next greater number), their tasks, and whether the queue is known not to be paused.
#define MAY_START                                                                                                   \
    "f.goes_on AND o.state = 'pending' AND o.unsatisfied_parents = f.n AND o.namespace = $4 AND o.timeout IS NULL " \
    "AND o.next_retry_at IS NULL AND ($9 OR NOT EXISTS (SELECT FROM pawl.paused p "                                 \
    "WHERE p.relation = 'pawl_dag.steps'::regclass AND p.state_column = 'state' AND (p.queue IS NULL OR "           \
    "p.queue = $4) AND (p.until IS NULL OR p.until > clock_timestamp())))"
// How many of the steps that wait precede a child: those of a higher rank, and of the same rank those of its task and
// of tasks before it.
#define WAITING_BEFORE                                        \
    "width_bucket(- m.rank, $7) + width_bucket(m.task_uuid, " \
    "($8)[width_bucket(- m.rank, $7) + 1 : width_bucket(- m.rank, $6)])"
#define START(children)                                                                                            \
    "UPDATE pawl_dag.steps c SET unsatisfied_parents = c.unsatisfied_parents - w.n, state = CASE WHEN w.goes_on "  \
    "AND c.state = 'pending' AND c.unsatisfied_parents = w.n THEN CASE WHEN w.starts AND c.next_retry_at IS NULL " \
    "THEN 'in_progress' ELSE 'enqueued' END ELSE c.state END FROM (SELECT m.*, m.may_start AND row_number() "      \
    "OVER (PARTITION BY m.may_start ORDER BY m.rank DESC, m.task_uuid, m.child_uuid) + " WAITING_BEFORE            \
    " <= $5 AS starts FROM (SELECT f.*, o.state AS was, o.rank, " MAY_START " AS may_start FROM " children         \
    " f JOIN pawl_dag.steps o ON o.task_uuid = f.task_uuid AND o.step_uuid = f.child_uuid) m) w "                  \
    "WHERE c.task_uuid = w.task_uuid AND c.step_uuid = w.child_uuid RETURNING c.task_uuid, "                       \
    "c.state = 'enqueued' AND w.was = 'pending', c.state = 'pending' AND c.unsatisfied_parents = 0, "              \
    "c.state = 'in_progress' AND w.was = 'pending', c.step_uuid, c.name, c.handler, c.handler_options, c.token, "  \
    "c.attempts, c.total_parents, c.rank"

inline constexpr const char* start_many = START(
    "(SELECT e.task_uuid, e.child_uuid, count(*)::integer AS n, bool_and(x.goes_on) AS goes_on "
    "FROM unnest($1, $2, $3) x(task, step, goes_on) JOIN pawl_dag.edges e ON e.task_uuid = x.task "
    "AND e.parent_uuid = x.step GROUP BY e.task_uuid, e.child_uuid)");
inline constexpr const char* start_one = START(
    "(SELECT e.task_uuid, e.child_uuid, 1 AS n, $3 AS goes_on FROM pawl_dag.edges e "
    "WHERE e.task_uuid = $1 AND e.parent_uuid = $2)");

// What a worker reports, in the version in which its step completes if its task is in the turn. What makes a step its
// own stands in a CASE: as a condition it would imply that of the index of leases, which seems the smallest where no
// step is leased when statistics are made, and has a dead entry for each step since.
#define REPORT(source)                                                                                           \
    "UPDATE pawl_dag.steps s SET state = CASE WHEN r.failed THEN 'enqueued_as_error_for_orchestration' "         \
    "WHEN r.completes THEN 'complete' ELSE 'enqueued_for_orchestration' END, "                                   \
    "result = CASE WHEN r.failed THEN s.result ELSE r.result END, error = CASE WHEN r.failed THEN r.error END, " \
    "permanent = CASE WHEN r.failed THEN r.permanent ELSE s.permanent END, "                                     \
    "backoff_request = CASE WHEN r.failed THEN r.wait ELSE s.backoff_request END FROM " source                   \
    " r(n, task, step, token, failed, result, error, permanent, wait, completes) "                               \
    "WHERE s.task_uuid = r.task AND s.step_uuid = r.step AND CASE WHEN s.state = 'in_progress' "                 \
    "THEN s.token = r.token AND s.worker_uuid::text = lower($11) AND s.lease_until > clock_timestamp() "         \
    "ELSE false END RETURNING r.n, s.name, s.map_of, s.result"
inline constexpr RowsStatement report_steps = {REPORT("unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
                                               REPORT("(SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10)")};

// A task that something else in this transaction has written since it was locked is evaluated again. The parameters are
// arrays, or the values of one task.
#define COUNTED(place, blocked, ready, in_flight, waiting, failed, satisfied, locked)             \
    "evaluate = " locked " OR t.ctid <> " place ", steps_blocked = t.steps_blocked + " blocked    \
    ", steps_ready = t.steps_ready + " ready ", steps_in_flight = t.steps_in_flight + " in_flight \
    ", steps_waiting = t.steps_waiting + " waiting ", steps_failed = t.steps_failed + " failed    \
    ", steps_satisfied = t.steps_satisfied + " satisfied
#define OF_MANY                                                                                                   \
    COUNTED("w.place", "w.blocked", "w.ready", "w.in_flight", "w.waiting", "w.failed", "w.satisfied", "w.locked") \
    " FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9) "                                                           \
    "w(task, place, blocked, ready, in_flight, waiting, failed, satisfied, locked) WHERE t.task_uuid = w.task"
#define OF_ONE COUNTED("$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9") " WHERE t.task_uuid = $1"
#define MOVE                                                                                                \
    "UPDATE pawl_dag.tasks t SET state = $10, entered_at = clock_timestamp(), lease_until = CASE WHEN $11 " \
    "AND (t.lease_until > clock_timestamp() + interval '50 years') IS NOT TRUE "                            \
    "THEN clock_timestamp() + interval '100 years' ELSE t.lease_until END, "

inline constexpr const char* move_tasks = MOVE OF_MANY;
inline constexpr const char* move_task = MOVE OF_ONE;
inline constexpr const char* wait_for_locks = "SELECT pawl_dag._wait_for_locks($1, $2)";
inline constexpr const char* count_tasks = "UPDATE pawl_dag.tasks t SET " OF_MANY;
inline constexpr const char* count_task = "UPDATE pawl_dag.tasks t SET " OF_ONE;

#undef MOVE
#undef OF_ONE
#undef OF_MANY
#undef COUNTED
#undef REPORT
#undef START
#undef WAITING_BEFORE
#undef MAY_START
#undef REPORTED
#undef TROUBLED
#undef TROUBLED_ITSELF
#undef OVER
#undef HAS_REPORTED
#undef LOCKED
#undef WITH_REPORTED
#undef FIRST_REPORTED
#undef UNOWNED
#undef TOLD
#undef READ

}  // namespace pawl::dag
