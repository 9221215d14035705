-- The orchestrator: what moves tasks on. Each call is one transaction over many tasks, each of its steps one statement;
-- any number of sessions may call it at once. Tasks are locked first, then their steps.

-- Tasks that a duty could not move on. What is wrong with one of them never stops the
-- others: it waits, longer each time, and is reported.
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
'not before this time: 1 s, 2 s, 4 s ... at most a minute after the error';
SELECT pg_catalog.pg_extension_config_dump('pawl_dag.troubles', '');

CREATE FUNCTION pawl_dag._turning_apart() RETURNS boolean
LANGUAGE c STABLE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'pawl_dag_turning_apart';
COMMENT ON FUNCTION pawl_dag._turning_apart() IS 'internal: turns of one task each are taken, each by itself';

-- Said by the orchestrator alone, of the turn that raised an error.
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
    reported uuid[];
    picked uuid[];
    waiting constant uuid[] := ARRAY(SELECT r.task_uuid FROM pawl_dag.troubles r WHERE r.again_at > clock_timestamp());
BEGIN
    SELECT coalesce(array_agg(DISTINCT c.task_uuid), '{}') INTO reported
      FROM (SELECT s.task_uuid FROM pawl_dag.steps s
             WHERE (s.state = 'enqueued_for_orchestration' OR s.state = 'enqueued_as_error_for_orchestration')
                 AND s.task_uuid <> ALL (waiting)
             ORDER BY s.task_uuid LIMIT batch * 8) c;
    SELECT coalesce(array_agg(l.task_uuid), '{}') INTO picked
      FROM (SELECT t.task_uuid FROM pawl_dag.tasks t
             WHERE t.task_uuid = ANY (reported) AND (t.processor_uuid IS NULL OR t.processor_uuid = pawl_dag.engine())
             ORDER BY t.task_uuid LIMIT batch FOR NO KEY UPDATE SKIP LOCKED) l;
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

-- Where a task goes from its state, given what its steps do; null: it stays.
CREATE FUNCTION pawl_dag._next_event(state text, total integer, ready integer, in_flight integer, waiting integer,
    failed integer, ended integer, failure_policy text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN CASE state
    WHEN 'pending' THEN 'Start'
    WHEN 'initializing' THEN CASE WHEN total = 0 THEN 'NoStepsFound' WHEN ready > 0 THEN 'ReadyStepsFound'
        ELSE 'NoDependenciesReady' END
    WHEN 'steps_in_process' THEN CASE
        WHEN in_flight > 0 THEN CASE WHEN ready > 0 OR failed > 0 THEN 'StepCompleted' END
        WHEN waiting > 0 AND ready = 0 AND failed = 0 THEN 'StepFailed'
        ELSE 'AllStepsCompleted' END
    WHEN 'waiting_for_dependencies' THEN CASE WHEN ready > 0 OR failed > 0 OR in_flight = 0 THEN 'DependenciesReady' END
    WHEN 'waiting_for_retry' THEN CASE WHEN ready > 0 AND failed = 0 THEN 'RetryReady' WHEN waiting = 0
        OR failed > 0 THEN 'StepCompleted' END
    WHEN 'evaluating_results' THEN CASE
        WHEN failed > 0 AND (failure_policy = 'block' OR ready + in_flight + waiting = 0) THEN 'PermanentFailure'
        WHEN ready > 0 THEN 'ReadyStepsFound'
        WHEN ended = total THEN 'AllStepsSuccessful'
        WHEN in_flight = 0 AND waiting > 0 THEN 'StepFailed'
        ELSE 'NoDependenciesReady' END
    END;
COMMENT ON FUNCTION pawl_dag._next_event(text, integer, integer, integer, integer, integer, integer, text) IS
'internal: the event that advances a task; null if it has to wait. ended: steps that are satisfied or cancelled';

CREATE FUNCTION pawl_dag._state_after(event text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER
RETURN CASE event
    WHEN 'Start' THEN 'initializing'
    WHEN 'ReadyStepsFound' THEN 'enqueuing_steps' WHEN 'RetryReady' THEN 'enqueuing_steps'
    WHEN 'StepCompleted' THEN 'evaluating_results' WHEN 'AllStepsCompleted' THEN 'evaluating_results'
    WHEN 'DependenciesReady' THEN 'evaluating_results'
    WHEN 'StepFailed' THEN 'waiting_for_retry' WHEN 'NoDependenciesReady' THEN 'waiting_for_dependencies'
    WHEN 'PermanentFailure' THEN 'blocked_by_failures' WHEN 'AllStepsSuccessful' THEN 'complete'
    WHEN 'NoStepsFound' THEN 'complete' END;
COMMENT ON FUNCTION pawl_dag._state_after(text) IS 'internal: where an event of the orchestrator leads';

-- What a turn of the orchestrator does to one task: how its counters change, the one or two transitions that it takes,
-- and the steps that were enqueued already when its last result was counted down. left_over: how many more are ready,
-- where the task enqueues; partial: it completes without steps that were cancelled.
CREATE TYPE pawl_dag._task_turn AS (task uuid, blocked integer, ready integer, in_flight integer, waiting integer,
    failed integer, satisfied integer,
    event text, next_event text, enqueued integer, left_over integer, partial boolean);
COMMENT ON TYPE pawl_dag._task_turn IS 'internal: what a turn of the orchestrator does to one task';

-- Reads the results that workers reported, of tasks that are locked.
CREATE FUNCTION pawl_dag._record_results(picked uuid[], OUT tasks uuid[], OUT steps uuid[], OUT kinds text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
DECLARE
    reported tid[];
BEGIN
    -- A session that changes a step by plain SQL has its row and waits for the task,
    -- which is ours: it is not waited for here.
    reported := ARRAY(SELECT s.ctid FROM pawl_dag.steps s
                       WHERE s.task_uuid = ANY (picked) AND (s.state = 'enqueued_for_orchestration'
                           OR s.state = 'enqueued_as_error_for_orchestration')
                         FOR NO KEY UPDATE SKIP LOCKED);
    IF reported = '{}' THEN
        RETURN;
    END IF;
    WITH ended AS (
        UPDATE pawl_dag.steps s
           SET state = CASE WHEN s.state = 'enqueued_for_orchestration' THEN 'complete'
                            WHEN s.retryable AND NOT s.permanent
                                AND s.attempts < s.max_attempts THEN 'waiting_for_retry'
                            ELSE 'error' END,
               -- a wait that the worker asked for replaces the computed one, under the same cap
               next_retry_at = CASE WHEN s.backoff_request IS NOT NULL
                   AND s.state = 'enqueued_as_error_for_orchestration'
                                     AND s.retryable AND NOT s.permanent AND s.attempts < s.max_attempts
                                    THEN clock_timestamp() + pawl.backoff(s.attempts, coalesce(s.backoff, '{}'),
                                        s.backoff_request) ELSE s.next_retry_at END
         WHERE s.ctid = ANY (reported)
        RETURNING s.task_uuid, s.step_uuid, pawl_dag._kind(s.state, s.unsatisfied_parents, s.optional) AS kind)
    SELECT array_agg(x.task_uuid), array_agg(x.step_uuid), array_agg(x.kind) INTO tasks, steps, kinds FROM ended x;
END
$function$;
COMMENT ON FUNCTION pawl_dag._record_results(uuid[]) IS
'internal: completes, retries or fails the steps that workers reported; which, and what they are to their tasks now';

-- Counts down the steps that wait for finished ones. A step that becomes ready is enqueued by the same statement, if
-- the task continues: it has no failed step that would block it. What the turn does to each of the picked tasks.
CREATE FUNCTION pawl_dag._count_down(picked uuid[], ended_tasks uuid[], ended_steps uuid[], ended_kinds text[])
    RETURNS pawl_dag._task_turn[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
DECLARE
    turns pawl_dag._task_turn[];
BEGIN
    WITH ended AS MATERIALIZED (SELECT * FROM unnest(ended_tasks, ended_steps, ended_kinds) x(task, step, kind)),
    told AS MATERIALIZED (
        SELECT x.task, count(*)::integer AS ended, (count(*) FILTER (WHERE x.kind = 'waiting'))::integer AS waiting,
               (count(*) FILTER (WHERE x.kind = 'failed'))::integer AS failed,
               (count(*) FILTER (WHERE x.kind = 'satisfied'))::integer AS satisfied
          FROM ended x GROUP BY x.task),
    looked_at AS MATERIALIZED (
        SELECT t.task_uuid, t.state, t.failure_policy, t.steps_total AS total, t.steps_ready AS ready,
        t.steps_in_flight - coalesce(x.ended, 0) AS in_flight,
               t.steps_waiting + coalesce(x.waiting, 0) AS waiting, t.steps_failed + coalesce(x.failed, 0) AS failed,
               t.steps_satisfied + coalesce(x.satisfied, 0) + t.steps_cancelled AS ended_now,
               t.steps_cancelled > 0 AS partial,
               coalesce(x.ended, 0) AS ended, coalesce(x.waiting, 0) AS now_waiting,
               coalesce(x.failed, 0) AS now_failed, coalesce(x.satisfied, 0) AS now_satisfied
          FROM unnest(picked) p(task) JOIN pawl_dag.tasks t ON t.task_uuid = p.task
          LEFT JOIN told x ON x.task = t.task_uuid), freed AS MATERIALIZED (
        SELECT e.task_uuid, e.child_uuid, count(*)::integer AS n FROM ended x
        JOIN pawl_dag.edges e ON e.task_uuid = x.task AND e.parent_uuid = x.step
         WHERE x.kind = 'satisfied' GROUP BY e.task_uuid, e.child_uuid ORDER BY e.task_uuid, e.child_uuid),
    waits AS MATERIALIZED (
        SELECT f.task_uuid, f.child_uuid, f.n,
               l.state IN ('steps_in_process', 'waiting_for_dependencies', 'waiting_for_retry', 'evaluating_results')
               AND (l.failed = 0 OR l.failure_policy <> 'block') AS goes_on
          FROM freed f JOIN looked_at l ON l.task_uuid = f.task_uuid),
    enqueued AS (
        UPDATE pawl_dag.steps c SET unsatisfied_parents = 0, state = 'enqueued'
          FROM waits w
         WHERE w.goes_on AND c.task_uuid = w.task_uuid AND c.step_uuid = w.child_uuid AND c.state = 'pending'
             AND c.unsatisfied_parents = w.n
        RETURNING c.task_uuid, c.step_uuid),
    followers AS (
        UPDATE pawl_dag.steps c SET unsatisfied_parents = c.unsatisfied_parents - w.n
          FROM waits w
         WHERE c.task_uuid = w.task_uuid AND c.step_uuid = w.child_uuid
             AND w.child_uuid NOT IN (SELECT q.step_uuid FROM enqueued q)
        RETURNING c.task_uuid, (c.unsatisfied_parents = 0 AND c.state = 'pending')::integer AS ready),
    became AS (
        SELECT x.task_uuid, sum(x.ready)::integer AS ready, sum(x.enqueued)::integer AS enqueued
          FROM (SELECT q.task_uuid, 1 AS ready, 1 AS enqueued FROM enqueued q UNION ALL SELECT f.task_uuid, f.ready, 0
              FROM followers f) x GROUP BY x.task_uuid), counted AS (
        SELECT l.*, coalesce(b.ready, 0) AS now_ready, coalesce(b.enqueued, 0) AS enqueued,
        l.ready + coalesce(b.ready, 0) AS ready_now
          FROM looked_at l LEFT JOIN became b ON b.task_uuid = l.task_uuid),
    first AS (
        SELECT c.*, pawl_dag._next_event(c.state, c.total, c.ready_now, c.in_flight, c.waiting, c.failed, c.ended_now,
                c.failure_policy) AS event FROM counted c), second AS (
        SELECT f.*, CASE WHEN f.event IN ('Start', 'StepCompleted', 'AllStepsCompleted', 'DependenciesReady') THEN
                   pawl_dag._next_event(pawl_dag._state_after(f.event), f.total, f.ready_now, f.in_flight, f.waiting,
            f.failed, f.ended_now, f.failure_policy) END AS next_event
          FROM first f)
    SELECT array_agg(ROW(s.task_uuid, -s.now_ready, s.now_ready, -s.ended, s.now_waiting, s.now_failed, s.now_satisfied,
        s.event, s.next_event, s.enqueued,
               CASE WHEN coalesce(pawl_dag._state_after(s.next_event), pawl_dag._state_after(s.event),
                       s.state) = 'enqueuing_steps'
                   THEN s.ready_now - s.enqueued END,
               coalesce(s.partial
                   AND coalesce(s.next_event, s.event) = 'AllStepsSuccessful', false))::pawl_dag._task_turn)
      INTO turns FROM second s;
    RETURN turns;
END
$function$;
COMMENT ON FUNCTION pawl_dag._count_down(uuid[], uuid[], uuid[], text[]) IS
'internal: counts down dependents of finished steps, enqueues ready ones, and returns the turn of each task';

-- Changes tasks by the first or second of their transitions, each event by a statement of
-- its own; the first writes the counters, too.
CREATE FUNCTION pawl_dag._move_tasks(turns pawl_dag._task_turn[], second boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
SET enable_hashjoin = off
SET jit = off
AS $function$
DECLARE
    metadata constant text := coalesce(current_setting('pawl.metadata', true), '');
    move record;
BEGIN
    FOR move IN
        SELECT m.event, pawl_dag._state_after(m.event) AS to_state, m.partial
          FROM (SELECT DISTINCT CASE WHEN second THEN w.next_event ELSE w.event END AS event, w.partial
                  FROM unnest(turns) w) m WHERE NOT second OR m.event IS NOT NULL
    LOOP
        PERFORM set_config('pawl.event', coalesce(move.event, ''), true);
        IF move.partial AND move.to_state = 'complete' THEN
            PERFORM set_config('pawl.metadata',
                (coalesce(nullif(metadata, ''), '{}')::jsonb || '{"partial": true}')::text, true);
        END IF;
        IF second THEN
            UPDATE pawl_dag.tasks t
               SET state = move.to_state, evaluate = false, entered_at = clock_timestamp(),
                   lease_until = CASE WHEN move.to_state IN ('enqueuing_steps', 'evaluating_results')
                       THEN clock_timestamp() + interval '100 years' ELSE t.lease_until END
              FROM unnest(turns) w
              WHERE w.next_event = move.event AND w.partial = move.partial AND t.task_uuid = w.task;
        ELSE
            UPDATE pawl_dag.tasks t
               SET state = coalesce(move.to_state, t.state), evaluate = false,
               entered_at = CASE WHEN move.event IS NULL THEN t.entered_at ELSE clock_timestamp() END,
                   lease_until = CASE WHEN move.to_state IN ('initializing', 'enqueuing_steps', 'evaluating_results')
                       THEN clock_timestamp() + interval '100 years' ELSE t.lease_until END,
                   steps_blocked = t.steps_blocked + w.blocked, steps_ready = t.steps_ready + w.ready,
                   steps_in_flight = t.steps_in_flight + w.in_flight,
                   steps_waiting = t.steps_waiting + w.waiting, steps_failed = t.steps_failed + w.failed,
                   steps_satisfied = t.steps_satisfied + w.satisfied
              FROM unnest(turns) w
             WHERE w.event IS NOT DISTINCT FROM move.event AND w.partial = move.partial AND t.task_uuid = w.task
               AND (move.event IS NOT NULL OR t.evaluate OR w.in_flight <> 0);
        END IF;
        IF move.partial AND move.to_state = 'complete' THEN
            PERFORM set_config('pawl.metadata', metadata, true);
        END IF;
    END LOOP;
    PERFORM set_config('pawl.event', '', true);
END
$function$;
COMMENT ON FUNCTION pawl_dag._move_tasks(pawl_dag._task_turn[], boolean) IS
'internal: the next transition of many tasks';

-- Steps whose parents are satisfied go to the workers, and their tasks into process. The number of steps.
CREATE FUNCTION pawl_dag._enqueue_steps(turns pawl_dag._task_turn[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
SET jit = off
AS $function$
DECLARE
    ready tid[];
    moved uuid[] := '{}';
    enqueued bigint;
BEGIN
    ready := ARRAY(SELECT s.ctid FROM pawl_dag.steps s
                    WHERE s.task_uuid = ANY (ARRAY(SELECT w.task FROM unnest(turns) w WHERE w.left_over > 0))
                        AND s.state = 'pending' AND s.unsatisfied_parents = 0
                      FOR NO KEY UPDATE SKIP LOCKED);
    IF ready <> '{}' THEN
        WITH enqueued AS (UPDATE pawl_dag.steps s SET state = 'enqueued' WHERE s.ctid = ANY (ready)
            RETURNING s.task_uuid)
        SELECT array_agg(q.task_uuid) INTO moved FROM enqueued q;
    END IF;
    PERFORM set_config('pawl.event', 'StepsEnqueued', true);
    WITH counted AS MATERIALIZED (
        SELECT w.task, (w.enqueued + coalesce(c.n, 0))::integer AS n
          FROM unnest(turns) w LEFT JOIN (SELECT m AS task, count(*) AS n FROM unnest(moved) m GROUP BY m) c
          ON c.task = w.task WHERE w.left_over IS NOT NULL),
    moved_on AS (
        UPDATE pawl_dag.tasks t
           SET state = 'steps_in_process', evaluate = false, entered_at = clock_timestamp(),
               lease_until = clock_timestamp() + interval '100 years',
               steps_ready = t.steps_ready - c.n, steps_in_flight = t.steps_in_flight + c.n
          FROM counted c WHERE t.task_uuid = c.task)
    SELECT coalesce(sum(c.n), 0) INTO enqueued FROM counted c;
    PERFORM set_config('pawl.event', '', true);
    RETURN enqueued;
END
$function$;
COMMENT ON FUNCTION pawl_dag._enqueue_steps(pawl_dag._task_turn[]) IS
'internal: enqueues what else is ready of tasks that enqueue, and moves these into process';

-- One turn, as pawl_dag._take_turn calls it: from here no trigger follows up what is written to steps.
CREATE FUNCTION pawl_dag._turn(batch integer, OUT tasks integer, OUT reported bigint, OUT enqueued bigint,
    OUT finished bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    picked uuid[] := pawl_dag._pick_tasks(batch);
    results record;
    turns pawl_dag._task_turn[];
BEGIN
    IF NOT pawl_dag._orchestrating() THEN
        PERFORM pawl.raise('55000', 'only pawl_dag.orchestrate can orchestrate tasks', NULL,
            'select * from pawl_dag.orchestrate()');
    END IF;
    tasks := cardinality(picked);
    reported := 0;
    enqueued := 0;
    finished := 0;
    IF tasks = 0 THEN
        RETURN;
    END IF;
    results := pawl_dag._record_results(picked);
    reported := coalesce(cardinality(results.tasks), 0);
    turns := pawl_dag._count_down(picked, results.tasks, results.steps, results.kinds);
    PERFORM pawl_dag._move_tasks(turns, false);
    PERFORM pawl_dag._move_tasks(turns, true);
    IF EXISTS (SELECT FROM unnest(turns) w WHERE w.left_over IS NOT NULL) THEN
        enqueued := pawl_dag._enqueue_steps(turns);
    END IF;
    finished := (SELECT count(*) FROM unnest(turns) w
        WHERE 'complete' IN (pawl_dag._state_after(w.event), pawl_dag._state_after(w.next_event)));
END
$function$;
COMMENT ON FUNCTION pawl_dag._turn(integer) IS 'internal: one turn of the orchestrator; 55000: not called by it';

CREATE FUNCTION pawl_dag._take_turn(batch integer, OUT tasks integer, OUT reported bigint, OUT enqueued bigint,
    OUT finished bigint)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
AS 'MODULE_PATHNAME', 'pawl_dag_take_turn';
COMMENT ON FUNCTION pawl_dag._take_turn(integer) IS
'internal: pawl_dag._turn, with the follow-ups of its own statements left to it';

-- Turns of one task each, after a turn of many has failed: what is wrong is one's own.
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
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    caller text := current_setting('pawl.processor', true);
    called_event text := current_setting('pawl.event', true);
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    PERFORM set_config('pawl.processor', pawl_dag.engine()::text, true), set_config('pawl.event', '', true);
    BEGIN
        SELECT t.tasks, t.reported, t.enqueued, t.finished INTO tasks, reported, enqueued, finished
            FROM pawl_dag._take_turn(batch) t;
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        IF pawl.is_transient(SQLSTATE) THEN
            RAISE;
        END IF;
        SELECT t.tasks, t.reported, t.enqueued, t.finished INTO tasks, reported, enqueued, finished
            FROM pawl_dag._take_turns_apart(batch) t;
    END;
    IF EXISTS (SELECT FROM pawl_dag.troubles r WHERE r.again_at <= clock_timestamp()) THEN
        PERFORM pawl_dag._out_of_trouble();
    END IF;
    PERFORM set_config('pawl.processor', coalesce(caller, ''), true),
        set_config('pawl.event', coalesce(called_event, ''), true);
END
$function$;
COMMENT ON FUNCTION pawl_dag.orchestrate(integer) IS
'Advances tasks: starts them, reads reported results, enqueues steps that are ready, and completes tasks. A duty:
call it again until tasks is 0.
batch: how many tasks at most, 1 to 10000; default 100.
Returns tasks (looked at), reported (results that were read), enqueued (steps) and finished (tasks that completed).
Errors: 22023 batch out of range; a task that raises an error is set aside with a warning. Privileges: pawl_admin,
pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_dag.orchestrate()';
