-- The orchestrator advances tasks. Each call is one transaction over many tasks, and each of its steps one statement;
-- any number of sessions can call it at once. Tasks are locked first, then their steps.

-- Tasks that a duty could not advance. An error of one task does not stop the others: the task waits, longer each time,
-- and is reported.
CREATE TABLE pawl_dag.troubles (
    task_uuid uuid PRIMARY KEY REFERENCES pawl_dag.tasks ON DELETE CASCADE,
    failures integer NOT NULL DEFAULT 1 CHECK (failures OPERATOR(pg_catalog.>) 0),
    again_at timestamptz NOT NULL,
    sqlstate text COLLATE "C" NOT NULL,
    message text NOT NULL,
    since timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE pawl_dag.troubles IS
'tasks that pawl_dag.orchestrate could not move on: the error, how often in a row, and when it tries again. The row '
'goes when the task goes on';
COMMENT ON COLUMN pawl_dag.troubles.again_at IS
'not before this time: 1 s, 2 s, 4 s ... at most a minute after the error; where another session has locked steps, at '
'once, then after 100 ms, 200 ms ... at most 1 s';
SELECT pg_catalog.pg_extension_config_dump('pawl_dag.troubles', '');

CREATE FUNCTION pawl_dag._turning_apart() RETURNS boolean
LANGUAGE c STABLE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'pawl_dag_turning_apart';
COMMENT ON FUNCTION pawl_dag._turning_apart() IS 'internal: turns of one task each are taken, each by itself';

-- Only the orchestrator calls it, about a turn that raised an error.
CREATE FUNCTION pawl_dag._trouble(task uuid, sqlstate text, message text) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
    INSERT INTO pawl_dag.troubles AS t (task_uuid, again_at, sqlstate, message)
    SELECT x.task_uuid, clock_timestamp() + interval '1 s', _trouble.sqlstate, left(_trouble.message, 2000)
    FROM pawl_dag.tasks x WHERE x.task_uuid = _trouble.task AND pawl_dag._turning_apart()
    ON CONFLICT ON CONSTRAINT troubles_pkey DO UPDATE SET failures = least(t.failures + 1, 1000),
        sqlstate = excluded.sqlstate, message = excluded.message,
           again_at = clock_timestamp() + least(interval '1 s' * power(2, least(t.failures, 6)), interval '1 min')
$function$;
COMMENT ON FUNCTION pawl_dag._trouble(uuid, text, text) IS 'internal: a task could not be moved on; it waits';

-- SECURITY DEFINER: workers may not write troubles. Most locks are short, so the next turn tries again; then the wait
-- grows, because a lock can last and no session says when it ends.
CREATE FUNCTION pawl_dag._wait_for_locks(ready uuid[], reported uuid[]) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
    INSERT INTO pawl_dag.troubles AS t (task_uuid, again_at, sqlstate, message)
    SELECT x.task_uuid, clock_timestamp(), '55P03',
        'steps of the task could not be taken: another session may have locked them'
      FROM pawl_dag.tasks x WHERE pawl_dag._orchestrating() AND (x.task_uuid = ANY (ready)
          OR x.task_uuid = ANY (ARRAY(SELECT s.task_uuid FROM pawl_dag.steps s WHERE s.task_uuid = ANY (reported)
              AND (s.state = 'enqueued_for_orchestration' OR s.state = 'enqueued_as_error_for_orchestration'))))
    ON CONFLICT ON CONSTRAINT troubles_pkey DO UPDATE SET failures = least(t.failures + 1, 1000),
        sqlstate = excluded.sqlstate, message = excluded.message,
        again_at = clock_timestamp() + least(interval '100 ms' * power(2, least(t.failures - 1, 7)), interval '1 s')
$function$;
COMMENT ON FUNCTION pawl_dag._wait_for_locks(uuid[], uuid[]) IS
'internal: sets tasks aside whose steps a turn had to skip: those that are ready, and results that are still unread';

CREATE FUNCTION pawl_dag._out_of_trouble() RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
    DELETE FROM pawl_dag.troubles r USING pawl_dag.tasks t
     WHERE t.task_uuid = r.task_uuid AND r.again_at <= clock_timestamp() AND NOT t.evaluate
       AND NOT EXISTS (SELECT FROM pawl_dag.steps s WHERE s.task_uuid = r.task_uuid
                          AND (s.state = 'enqueued_for_orchestration'
                              OR s.state = 'enqueued_as_error_for_orchestration'))
$function$;
COMMENT ON FUNCTION pawl_dag._out_of_trouble() IS 'internal: forgets the troubles of tasks that were moved on';

-- Tasks with something to do, locked; those of other processors and those in progress are left out.
CREATE FUNCTION pawl_dag._pick_tasks(batch integer) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    picked uuid[];
    waiting constant uuid[] := ARRAY(SELECT r.task_uuid FROM pawl_dag.troubles r WHERE r.again_at > clock_timestamp());
BEGIN
    WITH RECURSIVE w(task) AS (
        (SELECT s.task_uuid FROM pawl_dag.steps s
          WHERE s.state = 'enqueued_for_orchestration' OR s.state = 'enqueued_as_error_for_orchestration'
          ORDER BY s.task_uuid LIMIT 1)
        UNION ALL
        SELECT (SELECT s.task_uuid FROM pawl_dag.steps s WHERE s.task_uuid > w.task
                   AND (s.state = 'enqueued_for_orchestration' OR s.state = 'enqueued_as_error_for_orchestration')
                 ORDER BY s.task_uuid LIMIT 1) FROM w WHERE w.task IS NOT NULL)
    SELECT coalesce(array_agg(p.task_uuid), '{}') INTO picked
      FROM (SELECT l.task_uuid FROM w CROSS JOIN LATERAL (
                SELECT t.task_uuid FROM pawl_dag.tasks t WHERE t.task_uuid = w.task AND t.task_uuid <> ALL (waiting)
                   AND (t.processor_uuid IS NULL OR t.processor_uuid = pawl_dag.engine())
                   FOR NO KEY UPDATE SKIP LOCKED) l LIMIT batch) p;
    IF cardinality(picked) < batch THEN
        SELECT picked || coalesce(array_agg(l.task_uuid) FILTER (WHERE l.task_uuid <> ALL (picked)), '{}') INTO picked
          FROM (SELECT t.task_uuid FROM pawl_dag.tasks t
                 WHERE t.evaluate AND t.task_uuid <> ALL (waiting)
                     AND (t.processor_uuid IS NULL OR t.processor_uuid = pawl_dag.engine())
                 ORDER BY t.rank DESC, t.task_uuid LIMIT batch - cardinality(picked) FOR NO KEY UPDATE SKIP LOCKED) l;
    END IF;
    RETURN picked;
END
$function$;
COMMENT ON FUNCTION pawl_dag._pick_tasks(integer) IS 'internal: tasks that wait for the orchestrator, locked';

-- One turn: no trigger follows up what it writes to steps.
CREATE FUNCTION pawl_dag._take_turn(batch integer, OUT tasks integer, OUT reported bigint, OUT enqueued bigint,
    OUT finished bigint)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'pawl_dag_take_turn';
COMMENT ON FUNCTION pawl_dag._take_turn(integer) IS
'internal: a turn of the orchestrator; the follow-ups of its own statements are left to it';

-- Turns of one task each, after a turn of many has failed, so that the error belongs to one.
CREATE FUNCTION pawl_dag._turns_apart(batch integer, OUT tasks integer, OUT reported bigint, OUT enqueued bigint,
    OUT finished bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    candidate uuid[];
    turn record;
BEGIN
    tasks := 0;
    reported := 0;
    enqueued := 0;
    finished := 0;
    WHILE tasks < batch LOOP
        -- locked from here on; a turn of one picks the same one
        candidate := pawl_dag._pick_tasks(1);
        EXIT WHEN candidate = '{}';
        BEGIN
            SELECT t.* INTO turn FROM pawl_dag._take_turn(1) t;
            reported := reported + turn.reported;
            enqueued := enqueued + turn.enqueued;
            finished := finished + turn.finished;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl.is_transient(SQLSTATE) THEN
                RAISE;
            END IF;
            RAISE WARNING USING ERRCODE = SQLSTATE, MESSAGE = format('task %s was set aside: %s', candidate[1],
                SQLERRM), HINT = 'select * from pawl_dag.troubles';
            PERFORM pawl_dag._trouble(candidate[1], SQLSTATE, SQLERRM);
        END;
        tasks := tasks + 1;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_dag._turns_apart(integer) IS 'internal: pawl_dag._take_turns_apart';

CREATE FUNCTION pawl_dag._take_turns_apart(batch integer, OUT tasks integer, OUT reported bigint, OUT enqueued bigint,
    OUT finished bigint)
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_dag_take_turns_apart';
COMMENT ON FUNCTION pawl_dag._take_turns_apart(integer) IS 'internal: one turn a task; one that fails is set aside';

CREATE FUNCTION pawl_dag.orchestrate(batch integer DEFAULT 100, OUT tasks integer, OUT reported bigint,
    OUT enqueued bigint, OUT finished bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    caller text := current_setting('pawl.processor', true);
    called_event text := current_setting('pawl.event', true);
    most constant integer := pawl.check_batch(batch, 10000);
    said text;
BEGIN
    -- an assignment calls a function without the executor, which PERFORM starts
    said := set_config('pawl.processor', pawl_dag.engine()::text, true);
    said := set_config('pawl.event', '', true);
    BEGIN
        SELECT t.tasks, t.reported, t.enqueued, t.finished INTO tasks, reported, enqueued, finished
            FROM pawl_dag._take_turn(most) t;
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        IF pawl.is_transient(SQLSTATE) THEN
            RAISE;
        END IF;
        SELECT t.tasks, t.reported, t.enqueued, t.finished INTO tasks, reported, enqueued, finished
            FROM pawl_dag._take_turns_apart(most) t;
    END;
    IF EXISTS (SELECT FROM pawl_dag.troubles r WHERE r.again_at <= clock_timestamp()) THEN
        PERFORM pawl_dag._out_of_trouble();
    END IF;
    said := set_config('pawl.processor', coalesce(caller, ''), true);
    said := set_config('pawl.event', coalesce(called_event, ''), true);
END
$function$;
COMMENT ON FUNCTION pawl_dag.orchestrate(integer) IS
'Advances tasks: starts them, reads reported results, enqueues steps that are ready, and completes tasks. A duty:
call it again until tasks is 0.
batch: how many tasks at most, 1 to 10000; default 100.
A task whose steps another session has locked is tried again by the next call, then after 100 ms, 200 ms ... at
most 1 s.
Returns tasks (looked at), reported (results that were read), enqueued (steps) and finished (tasks that completed).
Errors: 22023 batch out of range; a task that raises an error is set aside with a warning. Privileges: pawl_admin,
pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_dag.orchestrate()';
