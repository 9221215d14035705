-- What can happen next: readiness of steps, context of tasks. Read from states and edges, not from counters.

CREATE FUNCTION pawl_dag.steps_readiness(tasks uuid[], steps uuid[] DEFAULT NULL)
RETURNS TABLE (workflow_step_uuid uuid, task_uuid uuid, name text, current_state text, dependencies_satisfied boolean,
    retry_eligible boolean,
    ready_for_execution boolean, last_failure_at timestamptz, next_retry_at timestamptz, total_parents integer,
    completed_parents integer,
    attempts integer, max_attempts integer, backoff_request_seconds double precision, last_attempted_at timestamptz,
    level integer)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT s.step_uuid, s.task_uuid, s.name, s.state, p.satisfied = p.total, r.eligible,
           s.state IN ('pending', 'waiting_for_retry') AND p.satisfied = p.total AND r.eligible
           AND (s.next_retry_at IS NULL OR s.next_retry_at <= now()),
           s.last_failure_at, s.next_retry_at, p.total::integer, p.satisfied::integer, s.attempts, s.max_attempts,
           extract(epoch FROM s.backoff_request)::double precision, s.last_attempted_at, s.level
      FROM pawl_dag.steps s
      CROSS JOIN LATERAL (SELECT count(*) AS total, count(*)
          FILTER (WHERE x.state IN ('complete', 'resolved_manually') OR x.state = 'error' AND x.optional) AS satisfied
                            FROM pawl_dag.edges e
                            JOIN pawl_dag.steps x ON x.task_uuid = e.task_uuid AND x.step_uuid = e.parent_uuid
                           WHERE e.task_uuid = s.task_uuid AND e.child_uuid = s.step_uuid) p
      CROSS JOIN LATERAL (SELECT s.attempts = 0 OR s.retryable AND s.attempts < s.max_attempts AS eligible) r
     WHERE s.task_uuid = ANY (steps_readiness.tasks)
         AND (steps_readiness.steps IS NULL OR s.step_uuid = ANY (steps_readiness.steps));
END
$function$;
COMMENT ON FUNCTION pawl_dag.steps_readiness(uuid[], uuid[]) IS
'Returns one row for each step of the tasks: whether its dependencies are satisfied and whether it could run now.
tasks: their ids. steps: only these steps; default null: all.
Returns workflow_step_uuid, task_uuid, name, current_state, dependencies_satisfied, retry_eligible,
ready_for_execution, last_failure_at, next_retry_at, total_parents, completed_parents, attempts, max_attempts,
backoff_request_seconds (asked for by its worker), last_attempted_at and level (its distance from a root).
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT name, ready_for_execution FROM pawl_dag.steps_readiness(array(SELECT t.task_uuid FROM pawl_dag.tasks
t))';

CREATE FUNCTION pawl_dag.step_readiness(task uuid, steps uuid[] DEFAULT NULL)
RETURNS TABLE (workflow_step_uuid uuid, task_uuid uuid, name text, current_state text, dependencies_satisfied boolean,
    retry_eligible boolean,
    ready_for_execution boolean, last_failure_at timestamptz, next_retry_at timestamptz, total_parents integer,
    completed_parents integer,
    attempts integer, max_attempts integer, backoff_request_seconds double precision, last_attempted_at timestamptz,
    level integer)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT r.* FROM pawl_dag.steps_readiness(ARRAY[task], steps) r;
END
$function$;
COMMENT ON FUNCTION pawl_dag.step_readiness(uuid, uuid[]) IS
'Returns one row for each step of a task: whether its dependencies are satisfied and whether it could run now.
task: its id. steps: only these steps; default null: all.
Returns workflow_step_uuid, task_uuid, name, current_state, dependencies_satisfied, retry_eligible,
ready_for_execution, last_failure_at, next_retry_at, total_parents, completed_parents, attempts, max_attempts,
backoff_request_seconds, last_attempted_at and level, as pawl_dag.steps_readiness.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT name, ready_for_execution FROM pawl_dag.step_readiness(''01890000-0000-7000-8000-000000000001'')';

CREATE FUNCTION pawl_dag.task_contexts(tasks uuid[])
RETURNS TABLE (task_uuid uuid, template_uuid uuid, status text, total_steps integer, pending_steps integer,
    in_progress_steps integer, completed_steps integer,
    failed_steps integer, ready_steps integer, enqueued_steps integer, waiting_for_retry_steps integer,
    cancelled_steps integer, next_retry_at timestamptz,
    completion_percentage numeric, execution_status text, recommended_action text, health_status text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT t.task_uuid, t.template_uuid, t.state, c.total, c.pending, c.in_progress, c.completed, c.failed, c.ready,
    c.enqueued, c.waiting, c.cancelled,
           c.next_retry_at, CASE WHEN c.total = 0 THEN 0.00 ELSE round(c.completed * 100.0 / c.total, 2) END, e.status,
           CASE e.status WHEN 'blocked_by_failures' THEN 'handle_failures' WHEN 'has_ready_steps'
               THEN 'execute_ready_steps'
                         WHEN 'processing' THEN 'wait_for_completion' WHEN 'all_complete' THEN 'finalize_task'
                         WHEN 'waiting_for_retry' THEN 'wait_for_retry' ELSE 'wait_for_dependencies' END,
           CASE WHEN c.failed > 0 THEN 'blocked' WHEN c.waiting > 0 THEN 'recovering' ELSE 'healthy' END
      FROM pawl_dag.tasks t
      CROSS JOIN LATERAL (
          SELECT count(*)::integer AS total, count(*) FILTER (WHERE r.current_state = 'pending')::integer AS pending,
                 count(*) FILTER (WHERE r.current_state = 'in_progress')::integer AS in_progress,
                 count(*) FILTER (WHERE r.current_state IN ('complete', 'resolved_manually'))::integer AS completed,
                 count(*) FILTER (WHERE r.current_state = 'error')::integer AS failed,
                 count(*) FILTER (WHERE r.ready_for_execution)::integer AS ready,
                 count(*) FILTER (WHERE r.current_state IN ('enqueued', 'enqueued_for_orchestration',
                     'enqueued_as_error_for_orchestration'))::integer AS enqueued,
                 count(*) FILTER (WHERE r.current_state = 'waiting_for_retry')::integer AS waiting,
                 count(*) FILTER (WHERE r.current_state = 'cancelled')::integer AS cancelled,
                 min(r.next_retry_at) AS next_retry_at
            FROM pawl_dag.steps_readiness(ARRAY[t.task_uuid]) r) c
      CROSS JOIN LATERAL (
          SELECT CASE WHEN c.failed > 0 THEN 'blocked_by_failures' WHEN c.ready > 0 THEN 'has_ready_steps'
                      WHEN c.enqueued + c.in_progress > 0 THEN 'processing'
                      WHEN c.completed + c.cancelled = c.total THEN 'all_complete'
                      WHEN c.waiting > 0 THEN 'waiting_for_retry' ELSE 'waiting_for_dependencies' END AS status) e
     WHERE t.task_uuid = ANY (tasks);
END
$function$;
COMMENT ON FUNCTION pawl_dag.task_contexts(uuid[]) IS
'Returns one row for each task: how many of its steps are in which situation, what it waits for, and what to do.
tasks: their ids.
Returns task_uuid, template_uuid, status (its state), total_steps, and the counts of which it is the sum:
pending_steps, in_progress_steps, completed_steps, failed_steps, ready_steps, enqueued_steps,
waiting_for_retry_steps, cancelled_steps; next_retry_at, completion_percentage (0 to 100), execution_status,
recommended_action and health_status.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT task_uuid, execution_status FROM pawl_dag.task_contexts(array(SELECT t.task_uuid FROM pawl_dag.tasks
t))';

CREATE FUNCTION pawl_dag.task_context(task uuid)
RETURNS TABLE (task_uuid uuid, template_uuid uuid, status text, total_steps integer, pending_steps integer,
    in_progress_steps integer, completed_steps integer,
    failed_steps integer, ready_steps integer, enqueued_steps integer, waiting_for_retry_steps integer,
    cancelled_steps integer, next_retry_at timestamptz,
    completion_percentage numeric, execution_status text, recommended_action text, health_status text)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER ROWS 1
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT c.* FROM pawl_dag.task_contexts(ARRAY[task]) c;
END
$function$;
COMMENT ON FUNCTION pawl_dag.task_context(uuid) IS
'Returns the row of pawl_dag.task_contexts for one task. task: its id.
Returns task_uuid, template_uuid, status, total_steps, pending_steps, in_progress_steps, completed_steps,
failed_steps, ready_steps, enqueued_steps, waiting_for_retry_steps, cancelled_steps, next_retry_at,
completion_percentage, execution_status, recommended_action and health_status.
Errors: none. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT execution_status, recommended_action FROM
pawl_dag.task_context(''01890000-0000-7000-8000-000000000001'')';
