-- Tasks that take too long: thresholds, a view, the duty that times them out.

CREATE FUNCTION pawl_dag._threshold(state text, lifecycle jsonb) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN pg_catalog.make_interval(mins => coalesce(
    CASE state WHEN 'waiting_for_dependencies' THEN (lifecycle ->> 'max_waiting_for_dependencies_minutes')::integer
               WHEN 'waiting_for_retry' THEN (lifecycle ->> 'max_waiting_for_retry_minutes')::integer
               WHEN 'steps_in_process' THEN (lifecycle ->> 'max_steps_in_process_minutes')::integer END,
    CASE state WHEN 'waiting_for_dependencies' THEN 60 WHEN 'waiting_for_retry' THEN 30 WHEN 'steps_in_process' THEN 30 ELSE 1440 END));
COMMENT ON FUNCTION pawl_dag._threshold(text, jsonb) IS 'internal: how long a task may be in a state before it is stale';

CREATE INDEX tasks_entered ON pawl_dag.tasks (entered_at)
    WHERE state OPERATOR(pg_catalog.=) ANY ('{initializing,enqueuing_steps,steps_in_process,evaluating_results,waiting_for_dependencies,waiting_for_retry}'::pg_catalog.text[]);
CREATE INDEX tasks_deadline ON pawl_dag.tasks (deadline_at)
    WHERE state OPERATOR(pg_catalog.=) ANY ('{initializing,enqueuing_steps,steps_in_process,evaluating_results,waiting_for_dependencies,waiting_for_retry}'::pg_catalog.text[]);

CREATE VIEW pawl_dag.task_staleness AS
SELECT t.task_uuid, t.namespace, t.name, t.state, t.entered_at, t.deadline_at, b.threshold, b.stale_at,
       CASE WHEN t.deadline_at <= now() OR b.stale_at <= now() THEN 'stale'
            WHEN t.entered_at + b.threshold * 0.8 <= now() AND b.stale_at = t.entered_at + b.threshold THEN 'warning' ELSE 'healthy' END AS health,
       coalesce(x.configuration -> 'lifecycle' ->> 'staleness_action', 'dlq') AS staleness_action
  FROM pawl_dag.tasks t LEFT JOIN pawl_dag.templates x ON x.template_uuid = t.template_uuid
  CROSS JOIN LATERAL (SELECT pawl_dag._threshold(t.state, x.configuration -> 'lifecycle') AS threshold) h
  CROSS JOIN LATERAL (SELECT h.threshold, greatest(t.entered_at + h.threshold, (
      -- a task that waits for a timer is not stale before it
      SELECT max(s.next_retry_at) FROM pawl_dag.steps s WHERE s.task_uuid = t.task_uuid AND t.state = 'waiting_for_retry' AND s.state = 'waiting_for_retry')) AS stale_at) b
 WHERE t.state = ANY ('{initializing,enqueuing_steps,steps_in_process,evaluating_results,waiting_for_dependencies,waiting_for_retry}');
COMMENT ON VIEW pawl_dag.task_staleness IS
'tasks under way by how long they are in their state: healthy, warning from 80 % of the threshold on, stale; also stale is what has passed its deadline';

CREATE FUNCTION pawl_dag.time_out_tasks(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.metadata = ''
SET pawl.token = ''
AS $function$
DECLARE
    stale uuid[];
    hopeless uuid[];
BEGIN
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 10000 THEN
        PERFORM pawl._raise('22023', 'batch must be from 1 to 10000');
    END IF;
    SELECT coalesce(array_agg(l.task_uuid), '{}') INTO stale
      FROM (SELECT t.task_uuid FROM pawl_dag.tasks t
             WHERE t.task_uuid IN (SELECT v.task_uuid FROM pawl_dag.task_staleness v
                                    WHERE v.health = 'stale' AND v.staleness_action <> 'none' ORDER BY v.entered_at LIMIT batch)
             ORDER BY t.task_uuid FOR NO KEY UPDATE SKIP LOCKED) l;
    PERFORM set_config('pawl.event', 'Timeout', true), set_config('pawl.metadata', '{"reason": "staleness_timeout"}', true);
    -- looked at again under the lock: who moved on meanwhile is not stale
    SELECT coalesce(array_agg(v.task_uuid) FILTER (WHERE v.staleness_action = 'error'), '{}'), coalesce(array_agg(v.task_uuid), '{}') INTO hopeless, stale
      FROM pawl_dag.task_staleness v WHERE v.task_uuid = ANY (stale) AND v.health = 'stale';
    UPDATE pawl_dag.tasks t SET state = 'blocked_by_failures' WHERE t.task_uuid = ANY (stale);
    GET DIAGNOSTICS done = ROW_COUNT;
    PERFORM set_config('pawl.event', 'GiveUp', true);
    UPDATE pawl_dag.tasks t SET state = 'error' WHERE t.task_uuid = ANY (hopeless);
    SELECT min(least(v.stale_at, v.deadline_at)) INTO next_at FROM pawl_dag.task_staleness v
     WHERE v.staleness_action <> 'none' AND v.task_uuid <> ALL (stale);
END
$function$;
COMMENT ON FUNCTION pawl_dag.time_out_tasks(integer) IS
'blocks at most batch tasks that are stale or past their deadline and puts them into pawl_dag.dlq (staleness_action error: then gives them up); returns how many, and when the next one is due. A duty; needs pawl_operator';

CREATE FUNCTION pawl_dag.requeue(task uuid, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_dag.retry_task(task, reason); END;
COMMENT ON FUNCTION pawl_dag.requeue(uuid, text) IS 'takes a task out of pawl_dag.dlq and puts it back to work; see pawl_dag.retry_task';

CREATE VIEW pawl_dag.dlq_queue AS
SELECT d.*, w.weight + extract(epoch FROM now() - d.dlq_timestamp) / 60 AS urgency
  FROM pawl_dag.dlq d
  CROSS JOIN LATERAL (SELECT CASE d.reason WHEN 'dependency_cycle_detected' THEN 1000 WHEN 'max_retries_exceeded' THEN 500 WHEN 'staleness_timeout' THEN 100
                                           WHEN 'worker_unavailable' THEN 50 ELSE 10 END AS weight) w
 WHERE d.resolution_status = 'pending';
COMMENT ON VIEW pawl_dag.dlq_queue IS 'pending dead letters; order by urgency desc: the weight of the reason and the minutes they wait';

CREATE VIEW pawl_dag.dlq_reasons AS
SELECT d.reason, count(*) AS entries, count(*) FILTER (WHERE d.resolution_status = 'pending') AS pending, min(d.dlq_timestamp) AS first_at, max(d.dlq_timestamp) AS last_at
  FROM pawl_dag.dlq d GROUP BY d.reason;
COMMENT ON VIEW pawl_dag.dlq_reasons IS 'dead letters by reason';
