-- Tasks and their steps (pawl_dag): lists, one task with all that belongs to it, what operators do.

CREATE FUNCTION pawl_api._task(t record) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN jsonb_build_object('task_uuid', t.task_uuid, 'template_uuid', t.template_uuid, 'namespace', t.namespace, 'name', t.name, 'version', t.version,
        'state', t.state, 'priority', t.priority, 'identity_key', t.identity_key, 'correlation_id', t.correlation_id,
        'steps', jsonb_build_object('total', t.steps_total, 'blocked', t.steps_blocked, 'ready', t.steps_ready, 'in_flight', t.steps_in_flight,
            'waiting', t.steps_waiting, 'failed', t.steps_failed, 'satisfied', t.steps_satisfied, 'cancelled', t.steps_cancelled),
        'created_at', t.created_at, 'entered_at', t.entered_at, 'deadline_at', t.deadline_at, 'completed_at', t.completed_at, 'error', t.error);
END
$function$;
COMMENT ON FUNCTION pawl_api._task(record) IS 'internal: a task as lists show it';

CREATE FUNCTION pawl_api._step(s record) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN jsonb_build_object('step_uuid', s.step_uuid, 'task_uuid', s.task_uuid, 'name', s.name, 'state', s.state, 'handler', s.handler, 'level', s.level,
        'attempts', s.attempts, 'max_attempts', s.max_attempts, 'retryable', s.retryable, 'permanent', s.permanent, 'optional', s.optional,
        'worker', s.worker_uuid, 'lease_until', s.lease_until, 'next_retry_at', s.next_retry_at, 'last_attempted_at', s.last_attempted_at,
        'last_failure_at', s.last_failure_at, 'created_at', s.created_at, 'result', s.result, 'error', s.error);
END
$function$;
COMMENT ON FUNCTION pawl_api._step(record) IS 'internal: a step with its result';

CREATE FUNCTION pawl_api._need_task(task uuid) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    IF NOT EXISTS (SELECT FROM pawl_dag.tasks t WHERE t.task_uuid = task) THEN
        PERFORM pawl._raise('P0002', format('there is no task %s', task));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_api._need_task(uuid) IS 'internal: refuses a task that is not there (P0002), or where pawl_dag is not (0A000)';

-- Newest first. Filters look at so many tasks a page and no more: a page may be short, or empty, and still have a next one.
CREATE FUNCTION pawl_api.list_tasks(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    looked_at constant integer := 20000;
    page integer := pawl_api._limit(q);
    before uuid := (pawl_api._after(q, 1))[1]::uuid;
    states text[] := string_to_array(q ->> 'state', ',');
    item record;
    items jsonb := '[]';
    looked integer := 0;
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    FOR item IN
        SELECT t.* FROM pawl_dag.tasks t WHERE t.task_uuid < coalesce(before, 'ffffffff-ffff-ffff-ffff-ffffffffffff') ORDER BY t.task_uuid DESC LIMIT looked_at
    LOOP
        looked := looked + 1;
        IF (states IS NULL OR item.state = ANY (states)) AND (q ->> 'name' IS NULL OR item.name = q ->> 'name')
            AND (q ->> 'namespace' IS NULL OR item.namespace = q ->> 'namespace') AND (q ->> 'identity_key' IS NULL OR item.identity_key = q ->> 'identity_key')
            AND (q ->> 'created_after' IS NULL OR item.created_at >= (q ->> 'created_after')::timestamptz)
            AND (q ->> 'created_before' IS NULL OR item.created_at < (q ->> 'created_before')::timestamptz) THEN
            items := items || pawl_api._task(item);
        END IF;
        IF jsonb_array_length(items) = page OR looked = looked_at THEN
            RETURN jsonb_build_object('items', items, 'next', pawl_api._cursor(ARRAY[item.task_uuid::text]));
        END IF;
    END LOOP;
    RETURN jsonb_build_object('items', items, 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.list_tasks(jsonb) IS 'route: tasks, newest first; state (several by comma), name, namespace, identity_key, created_after, created_before';

CREATE FUNCTION pawl_api.get_task(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    task uuid := pawl_api._uuid(q, 'task');
    found_one record;
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    SELECT t.* INTO found_one FROM pawl_dag.tasks t WHERE t.task_uuid = task;
    IF NOT FOUND THEN
        PERFORM pawl._raise('P0002', format('there is no task %s', task));
    END IF;
    RETURN pawl_api._task(found_one) || jsonb_build_object('context', found_one.context,
        'workflow_steps', (SELECT coalesce(jsonb_agg(pawl_api._step(s) ORDER BY s.level, s.name), '[]') FROM pawl_dag.steps s WHERE s.task_uuid = task),
        'edges', (SELECT coalesce(jsonb_agg(jsonb_build_array(e.parent_uuid, e.child_uuid)), '[]') FROM pawl_dag.edges e WHERE e.task_uuid = task));
END
$function$;
COMMENT ON FUNCTION pawl_api.get_task(jsonb) IS 'route: a task with its steps and the edges between them ([parent, child])';

CREATE FUNCTION pawl_api.start_task(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    b jsonb := pawl_api._object(body, '{name,context,namespace,version,priority,identity_key,correlation_id,parent_correlation_id}');
    made uuid;
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    made := pawl_dag.start_task(pawl_api._required(b, 'name'), coalesce(b -> 'context', '{}'), coalesce(b ->> 'namespace', 'default'), b ->> 'version',
        coalesce((b ->> 'priority')::integer, 0), b ->> 'identity_key', (b ->> 'correlation_id')::uuid, (b ->> 'parent_correlation_id')::uuid);
    RETURN pawl_api.get_task(jsonb_build_object('task', made));
END
$function$;
COMMENT ON FUNCTION pawl_api.start_task(jsonb, jsonb) IS 'route: starts a task of a template';
