// Constants. The statements of a turn of the orchestrator, in their order. All run with search_path pg_catalog.
#pragma once

namespace pawl::dag {

// Tasks to pick, and what is read of them.
#define PICKED                                                                                             \
    "SELECT t.task_uuid, t.ctid, t.state, t.failure_policy = 'block', t.evaluate, t.steps_cancelled > 0, " \
    "t.steps_total, t.steps_ready, t.steps_in_flight, t.steps_waiting, t.steps_failed, "                   \
    "t.steps_satisfied + t.steps_cancelled FROM pawl_dag.tasks t WHERE (t.processor_uuid IS NULL OR "      \
    "t.processor_uuid = pawl_dag.engine()) AND "
#define TROUBLED "ARRAY(SELECT r.task_uuid FROM pawl_dag.troubles r WHERE r.again_at > clock_timestamp())"
#define REPORTED(step) \
    "(" step ".state = 'enqueued_for_orchestration' OR " step ".state = 'enqueued_as_error_for_orchestration')"

inline constexpr const char* pick_reported =
    PICKED "t.task_uuid = ANY (ARRAY(SELECT s.task_uuid FROM pawl_dag.steps s WHERE " REPORTED(
        "s") " AND s.task_uuid <> ALL (" TROUBLED
             ") ORDER BY s.task_uuid LIMIT $1 * 8)) "
             "ORDER BY t.task_uuid LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED";

inline constexpr const char* pick_changed =
    PICKED "t.evaluate AND t.task_uuid <> ALL (" TROUBLED
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

// A task that something else in this transaction has written since it was locked is evaluated again. The parameters are
// arrays, or the values of one task.
#define COUNTED(place, blocked, ready, in_flight, waiting, failed, satisfied)                     \
    "evaluate = t.ctid <> " place ", steps_blocked = t.steps_blocked + " blocked                  \
    ", steps_ready = t.steps_ready + " ready ", steps_in_flight = t.steps_in_flight + " in_flight \
    ", steps_waiting = t.steps_waiting + " waiting ", steps_failed = t.steps_failed + " failed    \
    ", steps_satisfied = t.steps_satisfied + " satisfied
#define OF_MANY                                                                                       \
    COUNTED("w.place", "w.blocked", "w.ready", "w.in_flight", "w.waiting", "w.failed", "w.satisfied") \
    " FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) "                                                   \
    "w(task, place, blocked, ready, in_flight, waiting, failed, satisfied) WHERE t.task_uuid = w.task"
#define OF_ONE COUNTED("$2", "$3", "$4", "$5", "$6", "$7", "$8") " WHERE t.task_uuid = $1"
#define MOVE                                                                                               \
    "UPDATE pawl_dag.tasks t SET state = $9, entered_at = clock_timestamp(), lease_until = CASE WHEN $10 " \
    "THEN clock_timestamp() + interval '100 years' ELSE t.lease_until END, "

inline constexpr const char* move_tasks = MOVE OF_MANY;
inline constexpr const char* move_task = MOVE OF_ONE;
inline constexpr const char* count_tasks = "UPDATE pawl_dag.tasks t SET " OF_MANY;
inline constexpr const char* count_task = "UPDATE pawl_dag.tasks t SET " OF_ONE;

#undef MOVE
#undef OF_ONE
#undef OF_MANY
#undef COUNTED
#undef REPORTED
#undef TROUBLED
#undef PICKED

}  // namespace pawl::dag
