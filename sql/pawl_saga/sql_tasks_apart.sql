-- Tasks that are SQL functions, each in a transaction of its own.

-- The next task; its lease is that of any worker, so it is missed if the session ends.
CREATE FUNCTION pawl_saga._take_sql_task(worker text, lease interval) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$ BEGIN RETURN (SELECT to_jsonb(c) FROM pawl_saga.claim(worker, 'sql:', 1, lease) c); END $function$;
COMMENT ON FUNCTION pawl_saga._take_sql_task(text, interval) IS
'internal: claims the next task that is a SQL function; null: there is none';

-- Whether the flow is locked now. A session that decides in the flow has it locked and waits for the task, so this one,
-- which has the task locked, must not wait for the flow; but a report has it locked for a moment only.
CREATE FUNCTION pawl_saga._try_lock(flow uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    FOR try IN 1 .. 20 LOOP
        PERFORM FROM pawl_saga.flows f WHERE f.flow_uuid = flow FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            RETURN true;
        END IF;
        PERFORM pg_sleep(0.005);
    END LOOP;
    RETURN false;
END
$function$;
COMMENT ON FUNCTION pawl_saga._try_lock(uuid) IS
'internal: locks a flow, if that is possible within 100 ms and without waiting for a lock';

-- The task is locked before its flow, so that its function stops no other report of the flow. If the flow then cannot
-- be locked, what the function did must be undone, because only that unlocks the task.
CREATE FUNCTION pawl_saga._run_locked_task(work jsonb, worker text, flow_is_locked boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.token = ''
AS $function$
DECLARE
    caller constant text := coalesce(current_setting('pawl.processor', true), '');
    outcome jsonb;
    problem text;
BEGIN
    -- until this transaction ends, the row is locked and the lease is long; a rollback brings the short lease back
    PERFORM set_config('pawl.processor', worker, true);
    UPDATE pawl_saga.tasks t SET lease_until = clock_timestamp() + interval '1 day'
     WHERE t.flow_uuid = (work ->> 'flow_uuid')::uuid AND t.node = (work ->> 'node')::integer
         AND t.token = (work ->> 'token')::bigint
       AND t.state = CASE work ->> 'action' WHEN 'execute' THEN 'RUNNING' ELSE 'REVERTING' END
       AND t.lease_until > clock_timestamp();
    IF NOT FOUND THEN
        PERFORM set_config('pawl.processor', caller, true);
        RETURN false;
    END IF;
    PERFORM set_config('pawl.processor', caller, true);
    outcome := pawl_saga._run_task(work);
    IF NOT (flow_is_locked OR pawl_saga._try_lock((work ->> 'flow_uuid')::uuid)) THEN
        RETURN NULL;
    END IF;
    SELECT r.problem INTO problem FROM pawl_saga.report(jsonb_build_array(outcome), worker) r WHERE NOT r.ok;
    IF FOUND THEN
        PERFORM pawl.raise(left(problem, 5), substr(problem, 7));
    END IF;
    PERFORM pawl_saga._tasks_done(ARRAY[work]);
    RETURN true;
END
$function$;
COMMENT ON FUNCTION pawl_saga._run_locked_task(jsonb, text, boolean) IS
'internal: runs a task that the worker claimed in an earlier transaction, and reports; false: it has lost it; null: '
'the flow is locked by another session, and what was done must be undone';

CREATE FUNCTION pawl_saga._run_taken_task(work jsonb, worker text) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    ran boolean;
    is_locked boolean := false;
BEGIN
    BEGIN
        ran := pawl_saga._run_locked_task(work, worker, false);
        IF ran IS NOT NULL THEN
            RETURN ran;
        END IF;
        is_locked := true;
        PERFORM pawl.raise('55P03', format('flow %s is locked', work ->> 'flow_uuid'));
    EXCEPTION WHEN lock_not_available THEN
        IF NOT is_locked THEN
            RAISE;
        END IF;
    END;
    -- once more, and now the other session comes first
    PERFORM FROM pawl_saga.flows f WHERE f.flow_uuid = (work ->> 'flow_uuid')::uuid FOR NO KEY UPDATE;
    RETURN pawl_saga._run_locked_task(work, worker, true);
END
$function$;
COMMENT ON FUNCTION pawl_saga._run_taken_task(jsonb, text) IS
'internal: runs a task that the worker claimed in an earlier transaction, and reports; false: it has lost it';

-- A task has an action, a question has none.
CREATE FUNCTION pawl_saga._take_sql_work(worker text, lease interval, before jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    -- in turn: whichever kind ends its sessions, the other goes on
    RETURN CASE WHEN before ? 'action'
        THEN coalesce(to_jsonb(pawl_saga._take_question(lease)), pawl_saga._take_sql_task(worker, lease))
        ELSE coalesce(pawl_saga._take_sql_task(worker, lease), to_jsonb(pawl_saga._take_question(lease))) END;
END
$function$;
COMMENT ON FUNCTION pawl_saga._take_sql_work(text, interval, jsonb) IS
'internal: claims the next task or question for a SQL function; before: the one before it';

CREATE FUNCTION pawl_saga._run_sql_work(work jsonb, worker text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN CASE WHEN work ? 'action' THEN pawl_saga._run_taken_task(work, worker)
                ELSE pawl_saga._ask_question(jsonb_populate_record(NULL::pawl_saga.questions, work)) END::integer;
END
$function$;
COMMENT ON FUNCTION pawl_saga._run_sql_work(jsonb, text) IS
'internal: runs a task, or asks a question, claimed in an earlier transaction; 0: it is lost';

-- What follows from the report always raises an error: its flow is set aside, and the others continue.
CREATE FUNCTION pawl_saga._sql_work_raised(work jsonb, worker text, code text, said text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.processor = ''
AS $function$
BEGIN
    PERFORM set_config('pawl.processor', worker, true);
    IF work ? 'action' THEN
        PERFORM pawl_saga._task_raised((work ->> 'flow_uuid')::uuid, (work ->> 'node')::integer,
            (work ->> 'token')::bigint, 'work_sql_tasks', code, said);
    ELSE
        PERFORM pawl_saga._question_raised(jsonb_populate_record(NULL::pawl_saga.questions, work), 'work_sql_tasks',
            code, said, pawl_saga._is_outage(code));
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_saga._sql_work_raised(jsonb, text, text, text) IS
'internal: a task or question that this session claimed raised an error; its flow is set aside';

CREATE PROCEDURE pawl_saga.work_sql_tasks(batch integer DEFAULT 100, lease interval DEFAULT NULL,
    INOUT done integer DEFAULT NULL)
LANGUAGE plpgsql SECURITY INVOKER
AS $function$
BEGIN
    -- it commits, so it cannot have settings for its whole run
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    PERFORM pawl.check_batch(batch, 10000), pawl.check_lease(lease);
    CALL pawl.claim_and_run('SELECT pawl_saga._take_sql_work($1, $2, $4)', 'SELECT pawl_saga._run_sql_work($1, $2)',
        'SELECT pawl_saga._sql_work_raised($1, $2, $3, $4)', pawl.uuid_v7()::text, lease, batch, done);
END
$function$;
COMMENT ON PROCEDURE pawl_saga.work_sql_tasks(integer, interval, integer) IS
'Procedure, a duty: runs the tasks that pawl_saga.run_sql_tasks runs, each in a transaction of its own, as many as
start within 100 ms. Each is claimed in an earlier transaction, so a function that exceeds statement_timeout or
ends its session counts as a lost worker (see max_losses). If what follows from a report raises an error, the task
is undone and its flow is set aside (pawl_saga.set_aside). Questions in pawl_saga.questions are asked in the same
way; a flow whose functions cost more than five sessions or transactions ends in FAILURE.
batch: 1 to 10000; default 100. lease: default 60 s. Returns done: how many ran or were asked.
Errors: 2D000 inside a transaction; 22023 batch or lease out of range. Privileges: pawl_admin, pawl_operator.
Example: CALL pawl_saga.work_sql_tasks(10)';
