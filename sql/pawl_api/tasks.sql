-- Tasks and their steps (pawl_dag): lists, one task with all that belongs to it, what operators do.

-- What answers show of tasks and of steps. The planner merges these queries into those that read them, as it does with
-- views; but a view could not be made before the pack is installed.
CREATE FUNCTION pawl_api._tasks(with_context boolean) RETURNS TABLE (task_uuid uuid, template_uuid uuid,
    namespace text, name text, version text, state text, priority integer, identity_key text, correlation_id uuid,
    steps json, created_at timestamptz, entered_at timestamptz, deadline_at timestamptz, completed_at timestamptz,
    error jsonb, context jsonb)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
SELECT t.task_uuid, t.template_uuid, t.namespace, t.name, t.version, t.state, t.priority, t.identity_key,
       t.correlation_id, pg_catalog.json_build_object('total', t.steps_total, 'blocked', t.steps_blocked,
           'ready', t.steps_ready, 'in_flight', t.steps_in_flight, 'waiting', t.steps_waiting,
           'failed', t.steps_failed, 'satisfied', t.steps_satisfied, 'cancelled', t.steps_cancelled),
       t.created_at, t.entered_at, t.deadline_at, t.completed_at, t.error, CASE WHEN with_context THEN t.context END
  FROM pawl_dag.tasks t
$function$;
COMMENT ON FUNCTION pawl_api._tasks(boolean) IS 'internal: the tasks, of which lists do not show the context';

CREATE FUNCTION pawl_api._steps() RETURNS TABLE (step_uuid uuid, task_uuid uuid, name text, state text, handler text,
    level integer, attempts integer, max_attempts integer, retryable boolean, permanent boolean, optional boolean,
    worker uuid, lease_until timestamptz, next_retry_at timestamptz, last_attempted_at timestamptz,
    last_failure_at timestamptz, created_at timestamptz, result jsonb, error jsonb)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
SELECT s.step_uuid, s.task_uuid, s.name, s.state, s.handler, s.level, s.attempts, s.max_attempts, s.retryable,
       s.permanent, s.optional, s.worker_uuid, s.lease_until, s.next_retry_at, s.last_attempted_at, s.last_failure_at,
       s.created_at, s.result, s.error
  FROM pawl_dag.steps s
$function$;
COMMENT ON FUNCTION pawl_api._steps() IS 'internal: the steps with their results';

CREATE FUNCTION pawl_api.list_tasks(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    enough constant timestamptz := pawl_api._look_until();
    page integer := pawl_api._limit(q);
    before uuid := coalesce((pawl_api._after(q, 1))[1]::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    found_ones record;
    items jsonb;
BEGIN
    SELECT x.* INTO found_ones FROM pawl_api._find_tasks(q, before, page, enough) x;
    SELECT jsonb_agg(to_jsonb(t) - 'context' ORDER BY t.task_uuid DESC) INTO items FROM pawl_api._tasks(false) t
        WHERE t.task_uuid = ANY (found_ones.ids);
    RETURN pawl_api._filtered_page(items, page, '{task_uuid}',
        string_to_array(found_ones.looked_until::text, ','));
END
$function$;
COMMENT ON FUNCTION pawl_api.list_tasks(jsonb) IS
'Route: tasks, newest first; filters other than identity_key look at tasks for 100 ms for each page (setting
pawl_api.look_for_ms), so a page can be short or empty and still have a next one.
q: state (several by comma), name, namespace, identity_key, created_after, created_before, search (a text of the
context or error of the task, or of a result or error of its steps, in any case), limit (rows in the answer, 1 to 500),
cursor (next of the answer before). Returns the answer as JSON.
Errors: 22023 an invalid limit, cursor or search, or an unknown state; 0A000 pawl_dag is not installed. Privileges:
pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.list_tasks(''{"state": "error", "limit": "20"}'')';

-- As json, which is its own text: jsonb is taken apart and written again at each level.
CREATE FUNCTION pawl_api.get_task(q jsonb) RETURNS json
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    task uuid := pawl_api._uuid(q, 'task');
    answer json;
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    SELECT pawl_api._row_json(x) INTO answer FROM (
        SELECT t.*,
               ARRAY(SELECT pawl_api._row_json(s) FROM pawl_api._steps() s WHERE s.task_uuid = task
                      ORDER BY s.level, s.name) AS workflow_steps,
               ARRAY(SELECT ARRAY[e.parent_uuid, e.child_uuid] FROM pawl_dag.edges e
                      WHERE e.task_uuid = task) AS edges
          FROM pawl_api._tasks(true) t WHERE t.task_uuid = task) x;
    IF answer IS NULL THEN
        PERFORM pawl.raise('P0002', format('there is no task %s', task));
    END IF;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl_api.get_task(jsonb) IS
'Route: a task with its steps and their dependencies ([parent, child]).
q: task (its id). Returns the answer as JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 0A000 pawl_dag is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.get_task(''{"task": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.start_task(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    b jsonb := pawl_api._order('pawl_dag', body,
        '{name,context,namespace,version,priority,identity_key,correlation_id,parent_correlation_id}');
    made uuid;
BEGIN
    made := pawl_dag.start_task(pawl_api._required(b, 'name'), coalesce(b -> 'context', '{}'),
        coalesce(b ->> 'namespace', 'default'),
        b ->> 'version', coalesce((b ->> 'priority')::integer, 0), b ->> 'identity_key', (b ->> 'correlation_id')::uuid,
        (b ->> 'parent_correlation_id')::uuid);
    RETURN pawl_api.get_task(jsonb_build_object('task', made))::jsonb;
END
$function$;
COMMENT ON FUNCTION pawl_api.start_task(jsonb, jsonb) IS
'Route: starts a task of a template.
q: none. body: name, context, namespace, version, priority, identity_key, correlation_id, parent_correlation_id; all
but name are optional. Returns the answer as JSON.
Errors: 22023 an invalid body; those of pawl_dag.start_task; 0A000 pawl_dag is not installed. Privileges:
pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.start_task(''{}'', ''{"name": "invoice", "context": {"order": 1}}'')';
