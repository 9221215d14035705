-- Steps that are SQL functions: run by a duty, inside the database. The function's own changes and the step's result
-- are one transaction, so what it does happens exactly once. The attempt is recorded before, in a transaction of its
-- own, so a function that takes its session with it, or runs into a timeout, has used one.

-- The function can have set what a statement says by settings, for the whole session: that is not meant for the report.
CREATE FUNCTION pawl_dag._report_sql_step(step pawl_dag.steps, worker text, result jsonb, problem jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.processor = ''
SET pawl.event = ''
SET pawl.events = ''
SET pawl.token = ''
AS $function$
BEGIN
    PERFORM set_config('pawl.processor', worker, true);
    IF problem IS NULL THEN
        UPDATE pawl_dag.steps s SET state = 'enqueued_for_orchestration', result = _report_sql_step.result, error = NULL
         WHERE s.task_uuid = step.task_uuid AND s.step_uuid = step.step_uuid;
    ELSE
        -- a function that is not there, or not allowed, will not come by itself
        UPDATE pawl_dag.steps s SET state = 'enqueued_as_error_for_orchestration', error = problem,
               permanent = problem ->> 'sqlstate' IN ('42883', '42501')
         WHERE s.task_uuid = step.task_uuid AND s.step_uuid = step.step_uuid;
    END IF;
    IF NOT FOUND THEN
        PERFORM pawl.raise('55000', format('the report of step %s was not written', step.step_uuid),
            'The step is gone, or a trigger of the table has suppressed the update.');
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_dag._report_sql_step(pawl_dag.steps, text, jsonb, jsonb) IS
'internal: reports what the SQL function of a step returned or raised';

-- Runs a step that this worker has, and writes what came of it. The step's row is locked by the caller. The handler is
-- sql:<schema>.<function>; the function takes (context jsonb, inputs jsonb) and returns jsonb.
CREATE FUNCTION pawl_dag._run_step(step pawl_dag.steps, worker text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.traceparent = ''
SET pawl.tracestate = ''
AS $function$
DECLARE
    given record;
    answer record;
BEGIN
    SELECT i.context, (SELECT coalesce(jsonb_object_agg(p.name, p.value -> 'result'), '{}')
        FROM jsonb_each(i.parents) p(name, value)) AS inputs,
           (SELECT p.created_by FROM pawl_dag.tasks t JOIN pawl_dag.templates p ON p.template_uuid = t.template_uuid
             WHERE t.task_uuid = step.task_uuid AND EXISTS (SELECT FROM pawl_dag.template_steps x
                       WHERE x.template_uuid = t.template_uuid AND x.handler = step.handler)) AS definer,
           i.traceparent, i.tracestate
      INTO given
      FROM pawl_dag.step_inputs(ARRAY[step.task_uuid], ARRAY[step.step_uuid]) i;
    IF step.map_of IS NOT NULL THEN
        given.inputs := given.inputs
            || jsonb_build_object('item', step.handler_options -> 'item', 'index', step.map_index);
    END IF;
    IF given.traceparent IS NOT NULL THEN
        PERFORM pawl.enter_span(given.traceparent, given.tracestate);
    END IF;
    -- It runs with the rights of the role that defined the template, so it is one that the template names.
    IF given.definer IS NULL THEN
        SELECT NULL::jsonb AS result, jsonb_build_object('sqlstate', '42501', 'message',
            format('no step of the task''s template has the handler %s', step.handler)) AS problem INTO answer;
    ELSE
        answer := pawl.try_function(given.definer, substr(step.handler, 5), given.context, given.inputs);
    END IF;
    PERFORM pawl_dag._report_sql_step(step, worker, answer.result, answer.problem);
END
$function$;
COMMENT ON FUNCTION pawl_dag._run_step(pawl_dag.steps, text) IS
'internal: runs the SQL function of a step that the worker has, and reports';

-- Claims the next step; its lease is that of any worker, so it expires if the session ends. If none is left after
-- others were run, what they have released is enqueued first. A session that has run none leaves that to others.
CREATE FUNCTION pawl_dag._take_sql_step(worker text, lease interval, before jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.events = ''
SET pawl.token = ''
AS $function$
DECLARE
    step jsonb;
BEGIN
    FOR look IN 1 .. 2 LOOP
        SELECT jsonb_build_object('task_uuid', c.task_uuid, 'step_uuid', c.step_uuid, 'token', c.token) INTO step
          FROM pawl.claim(NULL::pawl_dag.steps, 'Start', worker, lease, 1, 'sql:') c;
        EXIT WHEN step IS NOT NULL OR before IS NULL OR look = 2
            OR (SELECT o.tasks FROM pawl_dag.orchestrate() o) = 0;
    END LOOP;
    RETURN step;
END
$function$;
COMMENT ON FUNCTION pawl_dag._take_sql_step(text, interval, jsonb) IS
'internal: the keys of the next step that is a SQL function, or null; before: the step that was run before it';

-- As pawl.reap would, but at once, and with the reason.
CREATE FUNCTION pawl_dag._end_overdue_step(step jsonb) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.processor = ''
SET pawl.event = ''
SET pawl.events = ''
SET pawl.token = ''
AS $function$
    UPDATE pawl_dag.steps s SET state = CASE WHEN s.retryable AND s.attempts < s.max_attempts
               THEN 'waiting_for_retry' ELSE 'error' END, error = jsonb_build_object('sqlstate', 'PW005', 'message',
               format('the function ran longer than the timeout of the step, %s', s.timeout))
     WHERE s.task_uuid = (step ->> 'task_uuid')::uuid AND s.step_uuid = (step ->> 'step_uuid')::uuid
       AND s.state = 'in_progress' AND s.token = (step ->> 'token')::bigint
       AND s.lease_until < clock_timestamp() AND s.last_attempted_at + s.timeout < clock_timestamp()
$function$;
COMMENT ON FUNCTION pawl_dag._end_overdue_step(jsonb) IS
'internal: ends the attempt of a step whose timeout has passed, if it has';

CREATE FUNCTION pawl_dag._run_taken_step(step jsonb, worker text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.events = ''
SET pawl.token = ''
AS $function$
DECLARE
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
    held pawl_dag.steps;
BEGIN
    -- for as long as this transaction lives the row is locked and the lease long;
    -- whatever ends it brings the short one back
    PERFORM set_config('pawl.processor', worker, true);
    UPDATE pawl_dag.steps s SET lease_until = clock_timestamp() + interval '1 day'
     WHERE s.task_uuid = (step ->> 'task_uuid')::uuid AND s.step_uuid = (step ->> 'step_uuid')::uuid
         AND s.state = 'in_progress' AND s.token = (step ->> 'token')::bigint AND s.lease_until > clock_timestamp()
    RETURNING s.* INTO held;
    PERFORM set_config('pawl.processor', caller, true);
    IF held.step_uuid IS NULL THEN
        PERFORM pawl_dag._end_overdue_step(step);
        RETURN 0;
    END IF;
    PERFORM pawl_dag._run_step(held, worker);
    RETURN 1;
END
$function$;
COMMENT ON FUNCTION pawl_dag._run_taken_step(jsonb, text) IS
'internal: runs a step that the worker claimed in an earlier transaction; 0: it has lost it';

-- After a rollback: what a step's report does raises an error. The step has failed with it, or because its timeout has
-- passed; a transient error, or a report of that failure that raises as well, leaves the step to its lease.
CREATE FUNCTION pawl_dag._step_raised(step jsonb, worker text, code text, said text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.processor = ''
SET pawl.event = ''
SET pawl.events = ''
SET pawl.token = ''
AS $function$
BEGIN
    RAISE WARNING USING ERRCODE = code,
        MESSAGE = format('step %s of task %s raised: %s', step ->> 'step_uuid', step ->> 'task_uuid', said);
    IF pawl.is_transient(code) THEN
        RETURN;
    END IF;
    PERFORM set_config('pawl.processor', worker, true);
    UPDATE pawl_dag.steps s SET state = 'enqueued_as_error_for_orchestration',
           error = jsonb_build_object('message', said, 'sqlstate', code), permanent = false
     WHERE s.task_uuid = (step ->> 'task_uuid')::uuid AND s.step_uuid = (step ->> 'step_uuid')::uuid
       AND s.state = 'in_progress' AND s.token = (step ->> 'token')::bigint AND s.lease_until > clock_timestamp();
    IF NOT FOUND THEN
        PERFORM pawl_dag._end_overdue_step(step);
    END IF;
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl.must_reraise(SQLSTATE) THEN
        RAISE;
    END IF;
    RAISE WARNING 'step % of task % waits until its lease expires: %', step ->> 'step_uuid', step ->> 'task_uuid',
        SQLERRM;
END
$function$;
COMMENT ON FUNCTION pawl_dag._step_raised(jsonb, text, text, text) IS
'internal: the report of a step raised an error; the step fails with it, or is left to its lease';

-- The steps of one transaction: what is wrong with one of them undoes neither the transaction nor the others.
CREATE FUNCTION pawl_dag._run_apart(step jsonb, worker text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    code text;
    said text;
BEGIN
    FOR try IN 1 .. 6 LOOP
        BEGIN
            PERFORM pawl_dag._run_taken_step(step, worker);
            RETURN;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl.must_reraise(SQLSTATE) THEN
                RAISE;
            END IF;
            code := SQLSTATE;
            said := SQLERRM;
        END;
        EXIT WHEN NOT pawl.is_transient(code);
    END LOOP;
    PERFORM pawl_dag._step_raised(step, worker, code, said);
END
$function$;
COMMENT ON FUNCTION pawl_dag._run_apart(jsonb, text) IS
'internal: runs a step that the worker has claimed; if its report raises an error, only the step fails';

CREATE FUNCTION pawl_dag.run_sql_steps(batch integer DEFAULT 1, OUT done integer)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    worker constant text := pawl.uuid_v7()::text;
    step jsonb;
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    done := 0;
    -- one after the other: the timeout of a step does not run while others do
    FOR n IN 1 .. batch LOOP
        step := pawl_dag._take_sql_step(worker, NULL, NULL);
        EXIT WHEN step IS NULL;
        PERFORM pawl_dag._run_apart(step, worker);
        done := n;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_dag.run_sql_steps(integer) IS
'Runs enqueued steps whose handler is sql:<schema>.<function>, a function (context jsonb, inputs jsonb) returning
jsonb, in the transaction of the caller and with the rights that pawl.call_as_definer gives to functions of the role
that defined the template; pawl_dag.work_sql_steps is the duty. A function that
raises an error is rolled back alone and its step fails; so does one with six conflicts (SQLSTATE 40...) in a READ
COMMITTED transaction. Its search_path is pg_catalog unless it sets its own. inputs of a mapped step also have
"item" and "index". If a report raises an error, what the function did is undone, and the step fails with a warning.
batch: how many steps at most, 1 to 10000; default 1. Returns done: how many ran.
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator.
Example: SELECT pawl_dag.run_sql_steps(10)';

CREATE PROCEDURE pawl_dag.work_sql_steps(batch integer DEFAULT 100, lease interval DEFAULT NULL,
    INOUT done integer DEFAULT NULL)
LANGUAGE plpgsql SECURITY INVOKER
AS $function$
BEGIN
    -- it commits, so it can set nothing for its whole run
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    PERFORM pawl.check_batch(batch, 10000), pawl.check_lease(lease);
    CALL pawl.claim_and_run('SELECT pawl_dag._take_sql_step($1, $2, $4)', 'SELECT pawl_dag._run_taken_step($1, $2)',
        'SELECT pawl_dag._step_raised($1, $2, $3, $4)', pawl.uuid_v7()::text, lease, batch, done);
END
$function$;
COMMENT ON PROCEDURE pawl_dag.work_sql_steps(integer, interval, integer) IS
'Procedure, a duty: runs the steps that pawl_dag.run_sql_steps runs, and those that they release, each in a
transaction of its own, as many as start within 100 ms. Each is claimed in an earlier transaction, so a function that
exceeds statement_timeout or ends its session has used an attempt. If a report raises an error, the step fails with a
warning; if the error is transient, the step waits until its lease expires.
batch: how many steps at most, 1 to 10000; default 100. lease: default 60 s. Returns done: how many ran.
Errors: 2D000 inside a transaction; 22023 batch or lease out of range. Privileges: pawl_admin, pawl_operator.
Example: CALL pawl_dag.work_sql_steps(10)';
