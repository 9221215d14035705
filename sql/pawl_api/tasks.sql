-- Tasks and their steps (pawl_dag): lists, one task with all that belongs to it, what operators do.

-- These two are called for each row, so they name what they call with its schema instead of setting a search_path.
CREATE FUNCTION pawl_api._task(t record) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
BEGIN
    RETURN pg_catalog.jsonb_build_object('task_uuid', t.task_uuid, 'template_uuid', t.template_uuid,
        'namespace', t.namespace, 'name', t.name, 'version', t.version,
        'state', t.state, 'priority', t.priority, 'identity_key', t.identity_key, 'correlation_id', t.correlation_id,
        'steps', pg_catalog.jsonb_build_object('total', t.steps_total, 'blocked', t.steps_blocked,
            'ready', t.steps_ready, 'in_flight', t.steps_in_flight,
            'waiting', t.steps_waiting, 'failed', t.steps_failed, 'satisfied', t.steps_satisfied, 'cancelled',
            t.steps_cancelled),
        'created_at', t.created_at, 'entered_at', t.entered_at, 'deadline_at', t.deadline_at, 'completed_at',
        t.completed_at, 'error', t.error);
END
$function$;
COMMENT ON FUNCTION pawl_api._task(record) IS 'internal: a task as lists show it';

CREATE FUNCTION pawl_api._step(s record) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
AS $function$
BEGIN
    RETURN pg_catalog.jsonb_build_object('step_uuid', s.step_uuid, 'task_uuid', s.task_uuid, 'name', s.name,
        'state', s.state, 'handler', s.handler, 'level', s.level,
        'attempts', s.attempts, 'max_attempts', s.max_attempts, 'retryable', s.retryable, 'permanent', s.permanent,
        'optional', s.optional,
        'worker', s.worker_uuid, 'lease_until', s.lease_until, 'next_retry_at', s.next_retry_at, 'last_attempted_at',
        s.last_attempted_at,
        'last_failure_at', s.last_failure_at, 'created_at', s.created_at, 'result', s.result, 'error', s.error);
END
$function$;
COMMENT ON FUNCTION pawl_api._step(record) IS 'internal: a step with its result';

CREATE FUNCTION pawl_api.list_tasks(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    enough constant timestamptz := pawl_api._look_until();
    page integer := pawl_api._limit(q);
    before uuid := coalesce((pawl_api._after(q, 1))[1]::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    found_ones record;
    items jsonb;
BEGIN
    SELECT x.* INTO found_ones FROM pawl_api._find_tasks(q, before, page, enough) x;
    SELECT jsonb_agg(pawl_api._task(t) ORDER BY t.task_uuid DESC) INTO items FROM pawl_dag.tasks t
        WHERE t.task_uuid = ANY (found_ones.ids);
    RETURN pawl_api._filtered_page(items, page, '{task_uuid}',
        string_to_array(found_ones.looked_until::text, ','));
END
$function$;
COMMENT ON FUNCTION pawl_api.list_tasks(jsonb) IS
'Route: tasks, newest first; filters other than identity_key look at tasks for 100 ms for each page (setting
pawl_api.look_for_ms), so a page can be short or empty and still have a next one.
q: state (several by comma), name, namespace, identity_key, created_after, created_before, search (a text of the
context or error of the task, or of a result or error of its steps, in any case), limit (rows in the answer, 1 to
500), cursor (next of the answer before). Returns the answer as JSON.
Errors: 22023 an invalid limit, cursor or search; 0A000 pawl_dag is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.list_tasks(''{"state": "error", "limit": "20"}'')';

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
        PERFORM pawl.raise('P0002', format('there is no task %s', task));
    END IF;
    RETURN pawl_api._task(found_one) || jsonb_build_object('context', found_one.context,
        'workflow_steps', (SELECT coalesce(jsonb_agg(pawl_api._step(s) ORDER BY s.level, s.name), '[]')
            FROM pawl_dag.steps s WHERE s.task_uuid = task),
        'edges', (SELECT coalesce(jsonb_agg(jsonb_build_array(e.parent_uuid, e.child_uuid)), '[]') FROM pawl_dag.edges e
            WHERE e.task_uuid = task));
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
    RETURN pawl_api.get_task(jsonb_build_object('task', made));
END
$function$;
COMMENT ON FUNCTION pawl_api.start_task(jsonb, jsonb) IS
'Route: starts a task of a template.
q: none. body: name, context, namespace, version, priority, identity_key, correlation_id, parent_correlation_id; all
but name are optional. Returns the answer as JSON.
Errors: 22023 an invalid body; those of pawl_dag.start_task; 0A000 pawl_dag is not installed. Privileges:
pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.start_task(''{}'', ''{"name": "invoice", "context": {"order": 1}}'')';
