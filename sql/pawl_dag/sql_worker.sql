-- Steps that are SQL functions: run by a duty, inside the database. The function's own changes and the step's result
-- are one transaction, so what it does happens exactly once. The attempt is recorded before, in a transaction of its
-- own, so a function that takes its session with it, or runs into a timeout, has used one.

-- The handler is sql:<schema>.<function>; the function takes (context jsonb, inputs jsonb) and returns jsonb.
CREATE FUNCTION pawl_dag._call_handler(handler text, definer name, context jsonb, inputs jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    -- a name with a schema only: search_path is no user's here
    function_of_it regprocedure := to_regprocedure(substr(handler, 5) || '(jsonb,jsonb)');
BEGIN
    IF function_of_it IS NULL THEN
        PERFORM pawl.raise('42883', format('no function %s(jsonb, jsonb)', substr(handler, 5)),
            'A handler "sql:..." must name a function with its schema.',
            'create function my_schema.my_step(context jsonb, inputs jsonb) returns jsonb ...');
    END IF;
    RETURN pawl.call_as_definer(definer, function_of_it,
        format('SELECT to_jsonb(%s($1, $2))', function_of_it::oid::regproc), NULL::jsonb, context, inputs);
END
$function$;
COMMENT ON FUNCTION pawl_dag._call_handler(text, name, jsonb, jsonb) IS
'internal: calls the function that a handler names, as pawl.call_as_definer does; 42883: there is none';

-- Runs a step that this worker has, and writes what came of it. The step's row is locked by the caller.
CREATE FUNCTION pawl_dag._run_step(step pawl_dag.steps, worker text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
    calling_span constant text := coalesce(current_setting('pawl.traceparent', true), '');
    calling_state constant text := coalesce(current_setting('pawl.tracestate', true), '');
    trace text;
    trace_state text;
    context jsonb;
    inputs jsonb;
    definer name;
    answer jsonb;
    problem jsonb;
    said text;
    detail text;
    code text;
BEGIN
    SELECT i.context, (SELECT coalesce(jsonb_object_agg(p.name, p.value -> 'result'), '{}')
        FROM jsonb_each(i.parents) p(name, value)),
           (SELECT p.created_by FROM pawl_dag.tasks t JOIN pawl_dag.templates p ON p.template_uuid = t.template_uuid
             WHERE t.task_uuid = step.task_uuid AND EXISTS (SELECT FROM pawl_dag.template_steps x
                       WHERE x.template_uuid = t.template_uuid AND x.handler = step.handler)),
           i.traceparent, i.tracestate
      INTO context, inputs, definer, trace, trace_state
      FROM pawl_dag.step_inputs(ARRAY[step.task_uuid], ARRAY[step.step_uuid]) i;
    IF step.map_of IS NOT NULL THEN
        inputs := inputs || jsonb_build_object('item', step.handler_options -> 'item', 'index', step.map_index);
    END IF;
    IF trace IS NOT NULL OR calling_span <> '' THEN
        PERFORM pawl.enter_span(trace, trace_state);
    END IF;
    -- A conflict is worth repeating at once; one that always comes back is the step's own. In a transaction with one
    -- snapshot it may be the transaction's, which only its caller can repeat.
    FOR try IN 1..6 LOOP
        problem := NULL;
        BEGIN
            -- It runs with the rights of the role that defined the template, so it is one that the template names.
            IF definer IS NULL THEN
                PERFORM pawl.raise('42501', format('no step of the task''s template has the handler %s', step.handler),
                    NULL, 'name it in the template: select pawl_dag.define_template(...)');
            END IF;
            answer := pawl_dag._call_handler(step.handler, definer, context, inputs);
            EXIT;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            -- what the server asks of everybody is not the step's failure
            IF pawl.is_transient(SQLSTATE) AND SQLSTATE NOT LIKE '40%' OR pawl.is_transient(SQLSTATE)
                AND current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE;
            END IF;
            GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, code = RETURNED_SQLSTATE;
            problem :=
                jsonb_strip_nulls(jsonb_build_object('message', said, 'detail', nullif(detail, ''), 'sqlstate', code));
        END;
        EXIT WHEN NOT pawl.is_transient(code);
    END LOOP;
    PERFORM set_config('pawl.processor', worker, true);
    IF problem IS NULL THEN
        UPDATE pawl_dag.steps s SET state = 'enqueued_for_orchestration', result = answer, error = NULL
         WHERE s.task_uuid = step.task_uuid AND s.step_uuid = step.step_uuid;
    ELSE
        -- a function that is not there, or not allowed, will not come by itself
        UPDATE pawl_dag.steps s
            SET state = 'enqueued_as_error_for_orchestration', error = problem, permanent = code IN ('42883', '42501')
         WHERE s.task_uuid = step.task_uuid AND s.step_uuid = step.step_uuid;
    END IF;
    PERFORM set_config('pawl.processor', caller, true);
    IF trace IS NOT NULL OR calling_span <> '' THEN
        PERFORM set_config('pawl.traceparent', calling_span, true), set_config('pawl.tracestate', calling_state, true);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_dag._run_step(pawl_dag.steps, text) IS
'internal: runs the SQL function of a step that the worker has, and reports';

CREATE FUNCTION pawl_dag.run_sql_steps(batch integer DEFAULT 1, OUT done integer)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    worker constant text := pawl.uuid_v7()::text;
    step pawl_dag.steps;
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    done := 0;
    -- no other session can claim a row that this transaction has written, so the lease is a formality
    FOR step IN SELECT c.* FROM pawl.claim(NULL::pawl_dag.steps, 'Start', worker, '1 day', batch, 'sql:') c LOOP
        PERFORM pawl_dag._run_step(step, worker);
        done := done + 1;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_dag.run_sql_steps(integer) IS
'Runs enqueued steps whose handler is sql:<schema>.<function>, a function (context jsonb, inputs jsonb) returning
jsonb, in the transaction of the caller and with the rights that pawl.call_as_definer gives to functions of the role
that defined the template; pawl_dag.work_sql_steps is the duty. A function that
raises an error is rolled back alone and its step fails; so does one with six conflicts (SQLSTATE 40...) in a READ
COMMITTED transaction. Its search_path is pg_catalog unless it sets its own. inputs of a mapped step also have
"item" and "index".
batch: how many steps at most, 1 to 10000; default 1. Returns done: how many ran.
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator.
Example: SELECT pawl_dag.run_sql_steps(10)';

-- Claims the next step; its lease is that of any worker, so it expires if the session ends.
CREATE FUNCTION pawl_dag._take_sql_step(worker text, lease interval) RETURNS pawl_dag.steps
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.token = ''
AS $function$ SELECT c FROM pawl.claim(NULL::pawl_dag.steps, 'Start', worker, lease, 1, 'sql:') c $function$;
COMMENT ON FUNCTION pawl_dag._take_sql_step(text, interval) IS
'internal: the next step that is a SQL function, or null';

CREATE FUNCTION pawl_dag._run_taken_step(step pawl_dag.steps, worker text) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
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
     WHERE s.task_uuid = step.task_uuid AND s.step_uuid = step.step_uuid AND s.state = 'in_progress'
         AND s.token = step.token AND s.lease_until > clock_timestamp()
    RETURNING s.* INTO held;
    PERFORM set_config('pawl.processor', caller, true);
    IF held.step_uuid IS NULL THEN
        RETURN false;
    END IF;
    PERFORM pawl_dag._run_step(held, worker);
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl_dag._run_taken_step(pawl_dag.steps, text) IS
'internal: runs a step that the worker claimed in an earlier transaction; false: it has lost it';

-- After a rollback: what a step's report does raises an error. The step has failed with it; a transient error, or a
-- report of that failure that raises as well, leaves the step to its lease.
CREATE FUNCTION pawl_dag._step_raised(step pawl_dag.steps, worker text, code text, said text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.token = ''
AS $function$
DECLARE
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
BEGIN
    RAISE WARNING USING ERRCODE = code,
        MESSAGE = format('step %s of task %s raised: %s', step.step_uuid, step.task_uuid, said);
    IF pawl.is_transient(code) THEN
        RETURN;
    END IF;
    PERFORM set_config('pawl.processor', worker, true);
    BEGIN
        UPDATE pawl_dag.steps s SET state = 'enqueued_as_error_for_orchestration',
               error = jsonb_build_object('message', said, 'sqlstate', code), permanent = false
         WHERE s.task_uuid = step.task_uuid AND s.step_uuid = step.step_uuid AND s.state = 'in_progress'
             AND s.token = step.token
           AND s.lease_until > clock_timestamp();
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        RAISE WARNING 'step % of task % waits until its lease expires: %', step.step_uuid, step.task_uuid, SQLERRM;
    END;
    PERFORM set_config('pawl.processor', caller, true);
END
$function$;
COMMENT ON FUNCTION pawl_dag._step_raised(pawl_dag.steps, text, text, text) IS
'internal: the report of a step raised an error; the step fails with it, or is left to its lease';

-- It commits, so it can set nothing for its whole run: each transaction begins with the path.
CREATE PROCEDURE pawl_dag.work_sql_steps(batch integer DEFAULT 100, lease interval DEFAULT NULL,
    INOUT done integer DEFAULT NULL)
LANGUAGE plpgsql SECURITY INVOKER
AS $function$
DECLARE
    worker text;
    -- one that waits for its turn behind a long one is not taken yet; a statement_timeout is meant for one step
    until timestamptz;
    step pawl_dag.steps;
    ran boolean;
    failures integer := 0;
    code text;
    said text;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    PERFORM pawl.check_batch(batch, 10000), pawl.check_lease(lease);
    done := 0;
    worker := pawl.uuid_v7()::text;
    until := clock_timestamp() + interval '100 ms';
    step := pawl_dag._take_sql_step(worker, lease);
    COMMIT;
    WHILE step.step_uuid IS NOT NULL LOOP
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        BEGIN
            ran := pawl_dag._run_taken_step(step, worker);
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            -- no failure of the function's: a transient error is tried again at once
            GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
            failures := failures + 1;
            ran := NULL;
        END;
        IF ran IS NULL THEN
            ROLLBACK;
            PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
            CONTINUE WHEN failures <= 5 AND pawl.is_transient(code);
            -- it always raises: the others have their turn
            PERFORM pawl_dag._step_raised(step, worker, code, said);
            COMMIT;
            PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
            ran := false;
        END IF;
        done := done + ran::integer;
        failures := 0;
        step := NULL;
        IF done < batch AND clock_timestamp() < until THEN
            step := pawl_dag._take_sql_step(worker, lease);
        END IF;
        COMMIT;
    END LOOP;
END
$function$;
COMMENT ON PROCEDURE pawl_dag.work_sql_steps(integer, interval, integer) IS
'Procedure, a duty: runs the steps that pawl_dag.run_sql_steps runs, each in a transaction of its own, as many as
start within 100 ms. Each is claimed in an earlier transaction, so a function that exceeds statement_timeout or
ends its session has used an attempt. If a report raises an error, the step fails with a warning; if the error is
transient, the step waits until its lease expires.
batch: how many steps at most, 1 to 10000; default 100. lease: default 60 s. Returns done: how many ran.
Errors: 2D000 inside a transaction; 22023 batch or lease out of range. Privileges: pawl_admin, pawl_operator.
Example: CALL pawl_dag.work_sql_steps(10)';
