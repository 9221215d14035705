-- How long the steps of a task took, for its picture.

CREATE FUNCTION pawl_api.task_timings(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    task uuid := pawl_api._uuid(q, 'task');
BEGIN
    PERFORM pawl_api._need_one('task', task);
    RETURN jsonb_build_object('next', NULL, 'items', (
        SELECT coalesce(
                    jsonb_agg(jsonb_build_object('step_uuid', t.step_uuid, 'began_at', t.created_at, 'ended_at',
                        t.ended_at) ORDER BY t.created_at), '[]')
          FROM (SELECT DISTINCT ON (w.step_uuid) w.* FROM (
                    SELECT l.step_uuid, l.to_state, l.sort_key, l.created_at,
                    lead(l.created_at) OVER (PARTITION BY l.step_uuid ORDER BY l.sort_key) AS ended_at
                      FROM pawl_dag.step_transitions_log l WHERE l.task_uuid = task) w
                 WHERE w.to_state = 'in_progress' ORDER BY w.step_uuid, w.sort_key DESC) t));
END
$function$;
COMMENT ON FUNCTION pawl_api.task_timings(jsonb) IS
'Route: when each step of a task was last worked on; ended_at is null while it is in progress.
q: task (its id). Returns the answer as JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 0A000 pawl_dag is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.task_timings(''{"task": "01890000-0000-7000-8000-000000000001"}'')';
