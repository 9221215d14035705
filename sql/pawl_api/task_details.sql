-- The details of tasks and steps, and what operators do to them.

CREATE FUNCTION pawl_api.get_step(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    task uuid := pawl_api._uuid(q, 'task');
    step uuid := pawl_api._uuid(q, 'step');
    answer jsonb;
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    SELECT to_jsonb(x) INTO answer FROM (
        SELECT s.*, d.handler_options,
               (SELECT to_jsonb(r) FROM pawl_dag.step_readiness(task, ARRAY[step]) r) AS readiness,
               (SELECT coalesce(jsonb_agg(pawl_api._transition(l) ORDER BY l.sort_key), '[]')
                  FROM pawl_dag.step_transitions_log l WHERE l.task_uuid = task AND l.step_uuid = step) AS transitions
          FROM pawl_api._steps() s JOIN pawl_dag.steps d USING (task_uuid, step_uuid)
         WHERE s.task_uuid = task AND s.step_uuid = step) x;
    IF answer IS NULL THEN
        PERFORM pawl.raise('P0002', format('there is no step %s of task %s', step, task));
    END IF;
    RETURN answer;
END
$function$;
COMMENT ON FUNCTION pawl_api.get_step(jsonb) IS
'Route: a step with its readiness and its log entries.
q: task, step (their ids). Returns the answer as JSON.
Errors: P0002 no such step; 22023 task or step is not a uuid; 0A000 pawl_dag is not installed. Privileges:
pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.get_step(''{"task": "01890000-0000-7000-8000-000000000001",
"step": "01890000-0000-7000-8000-000000000002"}'')';

CREATE FUNCTION pawl_api.list_steps(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    task uuid := pawl_api._uuid(q, 'task');
    after text[] := pawl_api._after(q, 2);
    page integer := pawl_api._limit(q);
    items jsonb;
BEGIN
    PERFORM pawl_api._need_one('task', task);
    SELECT jsonb_agg(to_jsonb(s) ORDER BY s.level, s.name) INTO items
      FROM (SELECT s.* FROM pawl_api._steps() s WHERE s.task_uuid = task AND (after IS NULL
          OR (s.level, s.name) > (after[1]::integer, after[2])) ORDER BY s.level, s.name LIMIT page) s;
    RETURN pawl_api._page(items, page, 'level', 'name');
END
$function$;
COMMENT ON FUNCTION pawl_api.list_steps(jsonb) IS
'Route: the steps of a task by level and name.
q: task (its id), limit (rows in the answer, 1 to 500), cursor (next of the answer before). Returns the answer as
JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 22023 an invalid limit or cursor; 0A000 pawl_dag is not
installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.list_steps(''{"task": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.step_audit(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    task uuid := pawl_api._uuid(q, 'task');
    step uuid := pawl_api._uuid(q, 'step');
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    IF NOT EXISTS (SELECT FROM pawl_dag.steps s WHERE s.task_uuid = task AND s.step_uuid = step) THEN
        PERFORM pawl.raise('P0002', format('there is no step %s of task %s', step, task));
    END IF;
    RETURN jsonb_build_object(
        'items', (SELECT
                    coalesce(jsonb_agg(to_jsonb(a) - 'transition_id'
                        || jsonb_build_object('transition_uuid', a.transition_id) ORDER BY a.sort_key), '[]')
            FROM pawl_dag.step_results a WHERE a.task_uuid = task AND a.step_uuid = step), 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.step_audit(jsonb) IS
'Route: the audited results of a step, with worker and execution time.
q: task, step (their ids). Returns the answer as JSON.
Errors: P0002 no such step; 22023 task or step is not a uuid; 0A000 pawl_dag is not installed. Privileges:
pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT
pawl_api.step_audit(''{"task": "01890000-0000-7000-8000-000000000001", "step": '
'"01890000-0000-7000-8000-000000000002"}'')';

CREATE FUNCTION pawl_api.task_transitions(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    task uuid := pawl_api._uuid(q, 'task');
    after integer := coalesce((pawl_api._after(q, 1))[1]::integer, 0);
    page integer := pawl_api._limit(q);
    items jsonb;
BEGIN
    PERFORM pawl_api._need_one('task', task);
    SELECT jsonb_agg(pawl_api._transition(l) ORDER BY l.sort_key) INTO items
      FROM (SELECT l.* FROM pawl_dag.task_transitions_log l WHERE l.task_uuid = task AND l.sort_key > after
          ORDER BY l.sort_key LIMIT page) l;
    RETURN pawl_api._page(items, page, 'sort_key');
END
$function$;
COMMENT ON FUNCTION pawl_api.task_transitions(jsonb) IS
'Route: the log entries of a task in order.
q: task (its id), limit (rows in the answer, 1 to 500), cursor (next of the answer before). Returns the answer as
JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 22023 an invalid limit or cursor; 0A000 pawl_dag is not
installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the
tables.
Example: SELECT pawl_api.task_transitions(''{"task": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.task_readiness(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    task uuid := pawl_api._uuid(q, 'task');
BEGIN
    PERFORM pawl_api._need_one('task', task);
    RETURN jsonb_build_object('items', (SELECT coalesce(jsonb_agg(to_jsonb(r) ORDER BY r.level, r.name), '[]')
        FROM pawl_dag.step_readiness(task) r), 'next', NULL);
END
$function$;
COMMENT ON FUNCTION pawl_api.task_readiness(jsonb) IS
'Route: for each step of a task, what it waits for and whether it could run.
q: task (its id). Returns the answer as JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 0A000 pawl_dag is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.task_readiness(''{"task": "01890000-0000-7000-8000-000000000001"}'')';

CREATE FUNCTION pawl_api.task_context(q jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    task uuid := pawl_api._uuid(q, 'task');
BEGIN
    PERFORM pawl_api._need_one('task', task);
    RETURN (SELECT to_jsonb(c) FROM pawl_dag.task_context(task) c);
END
$function$;
COMMENT ON FUNCTION pawl_api.task_context(jsonb) IS
'Route: the counted steps of a task, what it waits for, and what to do.
q: task (its id). Returns the answer as JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 0A000 pawl_dag is not installed. Privileges: pawl_admin,
pawl_operator, pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT pawl_api.task_context(''{"task": "01890000-0000-7000-8000-000000000001"}'')';

-- Functions for operators. They return the task as it is then, and whether it changed.
CREATE FUNCTION pawl_api._operate_task(q jsonb, body jsonb, action text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    task uuid := pawl_api._uuid(q, 'task');
    reason text := pawl_api._object(body, '{reason}') ->> 'reason';
    moved boolean;
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    CASE action
        WHEN 'cancel' THEN moved := pawl_dag.cancel_task(task, reason);
        WHEN 'retry' THEN moved := pawl_dag.retry_task(task, reason);
        WHEN 'requeue' THEN moved := pawl_dag.requeue(task, reason);
        WHEN 'resolve' THEN moved := pawl_dag.resolve_task(task, pawl_api._required(body, 'reason'));
        WHEN 'give_up' THEN moved := pawl_dag.give_up(task, pawl_api._required(body, 'reason'));
        WHEN 'reset' THEN moved := pawl_dag.reset_task(task, pawl_api._required(body, 'reason'));
    END CASE;
    RETURN pawl_api.get_task(q)::jsonb || jsonb_build_object('moved', moved);
END
$function$;
COMMENT ON FUNCTION pawl_api._operate_task(jsonb, jsonb, text) IS 'internal: what an operator does to a task';

CREATE FUNCTION pawl_api._operate_step(q jsonb, body jsonb, action text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    task uuid := pawl_api._uuid(q, 'task');
    step uuid := pawl_api._uuid(q, 'step');
    b jsonb := pawl_api._object(body, CASE action WHEN 'complete' THEN '{reason,result}'::text[]
        WHEN 'cancel' THEN '{reason,descendants}' ELSE '{reason}' END);
    moved boolean;
BEGIN
    PERFORM pawl_api._need('pawl_dag');
    CASE action
        WHEN 'retry' THEN moved := pawl_dag.reset_step(task, step, pawl_api._required(b, 'reason'));
        WHEN 'resolve' THEN moved := pawl_dag.resolve_step(task, step, pawl_api._required(b, 'reason'));
        WHEN 'complete'
            THEN moved := pawl_dag.complete_step_manually(task, step, b -> 'result', pawl_api._required(b, 'reason'));
        WHEN 'cancel' THEN moved :=
            pawl_dag.cancel_step(task, step, b ->> 'reason', coalesce(b ->> 'descendants', 'cancel')) > 0;
    END CASE;
    RETURN pawl_api.get_step(q) || jsonb_build_object('moved', moved);
END
$function$;
COMMENT ON FUNCTION pawl_api._operate_step(jsonb, jsonb, text) IS 'internal: what an operator does to a step';

CREATE FUNCTION pawl_api.cancel_task(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_task(q, body, 'cancel'); END;
COMMENT ON FUNCTION pawl_api.cancel_task(jsonb, jsonb) IS
'Route: cancels a task and its unfinished steps.
q: task (its id). body: reason, optional. Returns the answer as JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 22023 an invalid body; those of pawl_dag.cancel_task; 0A000
pawl_dag is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.cancel_task(''{"task": "01890000-0000-7000-8000-000000000001"}'',
''{"reason": "server is back"}'')';

CREATE FUNCTION pawl_api.retry_task(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_task(q, body, 'retry'); END;
COMMENT ON FUNCTION pawl_api.retry_task(jsonb, jsonb) IS
'Route: continues a task that is blocked, timed out or in error.
q: task (its id). body: reason, optional. Returns the answer as JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 22023 an invalid body; those of pawl_dag.retry_task; 0A000
pawl_dag is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.retry_task(''{"task": "01890000-0000-7000-8000-000000000001"}'',
''{"reason": "server is back"}'')';

CREATE FUNCTION pawl_api.requeue_task(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_task(q, body, 'requeue'); END;
COMMENT ON FUNCTION pawl_api.requeue_task(jsonb, jsonb) IS
'Route: removes a task from the dead letters and continues it.
q: task (its id). body: reason, optional. Returns the answer as JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 22023 an invalid body; those of pawl_dag.requeue; 0A000
pawl_dag is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.requeue_task(''{"task": "01890000-0000-7000-8000-000000000001"}'',
''{"reason": "server is back"}'')';

CREATE FUNCTION pawl_api.resolve_task(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_task(q, body, 'resolve'); END;
COMMENT ON FUNCTION pawl_api.resolve_task(jsonb, jsonb) IS
'Route: closes a task that was handled otherwise.
q: task (its id). body: reason. Returns the answer as JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 22023 an invalid body; those of pawl_dag.resolve_task; 0A000
pawl_dag is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.resolve_task(''{"task": "01890000-0000-7000-8000-000000000001"}'',
''{"reason": "server is back"}'')';

CREATE FUNCTION pawl_api.give_up_task(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_task(q, body, 'give_up'); END;
COMMENT ON FUNCTION pawl_api.give_up_task(jsonb, jsonb) IS
'Route: ends a blocked task in error.
q: task (its id). body: reason. Returns the answer as JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 22023 an invalid body; those of pawl_dag.give_up; 0A000
pawl_dag is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.give_up_task(''{"task": "01890000-0000-7000-8000-000000000001"}'',
''{"reason": "server is back"}'')';

CREATE FUNCTION pawl_api.reset_task(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_task(q, body, 'reset'); END;
COMMENT ON FUNCTION pawl_api.reset_task(jsonb, jsonb) IS
'Route: restarts a task in error.
q: task (its id). body: reason. Returns the answer as JSON.
Errors: P0002 no such task; 22023 task is not a uuid; 22023 an invalid body; those of pawl_dag.reset_task; 0A000
pawl_dag is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of the
role on the tables.
Example: SELECT pawl_api.reset_task(''{"task": "01890000-0000-7000-8000-000000000001"}'',
''{"reason": "server is back"}'')';

CREATE FUNCTION pawl_api.retry_step(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_step(q, body, 'retry'); END;
COMMENT ON FUNCTION pawl_api.retry_step(jsonb, jsonb) IS
'Route: gives a failed step its attempts back.
q: task, step (their ids). body: reason. Returns the answer as JSON.
Errors: P0002 no such step; 22023 task or step is not a uuid; 22023 an invalid body; those of pawl_dag.reset_step;
0A000 pawl_dag is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of
the role on the tables.
Example: SELECT
pawl_api.retry_step(''{"task": "01890000-0000-7000-8000-000000000001", "step": '
'"01890000-0000-7000-8000-000000000002"}'',
''{"reason": "server is back"}'')';

CREATE FUNCTION pawl_api.resolve_step(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_step(q, body, 'resolve'); END;
COMMENT ON FUNCTION pawl_api.resolve_step(jsonb, jsonb) IS
'Route: resolves a step without a result.
q: task, step (their ids). body: reason. Returns the answer as JSON.
Errors: P0002 no such step; 22023 task or step is not a uuid; 22023 an invalid body; those of pawl_dag.resolve_step;
0A000 pawl_dag is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of
the role on the tables.
Example: SELECT
pawl_api.resolve_step(''{"task": "01890000-0000-7000-8000-000000000001", "step": '
'"01890000-0000-7000-8000-000000000002"}'',
''{"reason": "sent by hand"}'')';

CREATE FUNCTION pawl_api.complete_step(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_step(q, body, 'complete'); END;
COMMENT ON FUNCTION pawl_api.complete_step(jsonb, jsonb) IS
'Route: completes a step with a given result.
q: task, step (their ids). body: reason, result. Returns the answer as JSON.
Errors: P0002 no such step; 22023 task or step is not a uuid; 22023 an invalid body; those of
pawl_dag.complete_step_manually; 0A000 pawl_dag is not installed. Privileges: pawl_admin, pawl_operator,
pawl_worker, pawl_reader; with the rights of the role on the tables.
Example: SELECT
pawl_api.complete_step(''{"task": "01890000-0000-7000-8000-000000000001", "step": '
'"01890000-0000-7000-8000-000000000002"}'',
''{"reason": "sent by hand", "result": {"id": 7}}'')';

CREATE FUNCTION pawl_api.cancel_step(q jsonb, body jsonb) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_api._operate_step(q, body, 'cancel'); END;
COMMENT ON FUNCTION pawl_api.cancel_step(jsonb, jsonb) IS
'Route: cancels a step and the steps that depend on it.
q: task, step (their ids). body: reason, descendants (cancel or reject; omitted: cancel), both optional. Returns the
answer as JSON.
Errors: P0002 no such step; 22023 task or step is not a uuid; 22023 an invalid body; those of pawl_dag.cancel_step;
0A000 pawl_dag is not installed. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader; with the rights of
the role on the tables.
Example: SELECT
pawl_api.cancel_step(''{"task": "01890000-0000-7000-8000-000000000001", "step": '
'"01890000-0000-7000-8000-000000000002"}'',
''{"reason": "not needed"}'')';
