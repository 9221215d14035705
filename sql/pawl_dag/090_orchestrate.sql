-- The orchestrator: what moves tasks on. Each call is one transaction over many tasks, each of its steps one statement; any number of
-- sessions may call it at once. Tasks are locked first, then their steps.

-- Tasks with something to do, locked; those of other processors and those that somebody works on are left out.
CREATE FUNCTION pawl_dag._pick_tasks(batch integer) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    reported uuid[];
    picked uuid[];
BEGIN
    SELECT coalesce(array_agg(DISTINCT c.task_uuid), '{}') INTO reported
      FROM (SELECT s.task_uuid FROM pawl_dag.steps s
             WHERE s.state = 'enqueued_for_orchestration' OR s.state = 'enqueued_as_error_for_orchestration' ORDER BY s.task_uuid LIMIT batch * 8) c;
    SELECT coalesce(array_agg(l.task_uuid), '{}') INTO picked
      FROM (SELECT t.task_uuid FROM pawl_dag.tasks t
             WHERE t.task_uuid = ANY (reported) AND (t.processor_uuid IS NULL OR t.processor_uuid = pawl_dag.engine())
             ORDER BY t.task_uuid LIMIT batch FOR NO KEY UPDATE SKIP LOCKED) l;
    IF cardinality(picked) < batch THEN
        SELECT picked || coalesce(array_agg(l.task_uuid) FILTER (WHERE l.task_uuid <> ALL (picked)), '{}') INTO picked
          FROM (SELECT t.task_uuid FROM pawl_dag.tasks t
                 WHERE t.evaluate AND (t.processor_uuid IS NULL OR t.processor_uuid = pawl_dag.engine())
                 ORDER BY t.rank DESC, t.task_uuid LIMIT batch - cardinality(picked) FOR NO KEY UPDATE SKIP LOCKED) l;
    END IF;
    RETURN picked;
END
$function$;
COMMENT ON FUNCTION pawl_dag._pick_tasks(integer) IS 'internal: tasks that wait for the orchestrator, locked';

-- Reads the results that workers reported. The number of steps.
CREATE FUNCTION pawl_dag._settle_results(picked uuid[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
DECLARE
    reported tid[];
    settled bigint;
BEGIN
    -- Who moves a step by hand has its row and waits for the task, which is ours: nobody waits for him here. He says when he is done.
    reported := ARRAY(SELECT s.ctid FROM pawl_dag.steps s
                       WHERE s.task_uuid = ANY (picked) AND (s.state = 'enqueued_for_orchestration' OR s.state = 'enqueued_as_error_for_orchestration')
                         FOR NO KEY UPDATE SKIP LOCKED);
    IF reported = '{}' THEN
        RETURN 0;
    END IF;
    UPDATE pawl_dag.steps s
       SET state = CASE WHEN s.state = 'enqueued_for_orchestration' THEN 'complete'
                        WHEN s.retryable AND NOT s.permanent AND s.attempts < s.max_attempts THEN 'waiting_for_retry'
                        ELSE 'error' END,
           -- a wait that the worker asked for replaces the computed one, under the same cap
           next_retry_at = CASE WHEN s.backoff_request IS NOT NULL AND s.state = 'enqueued_as_error_for_orchestration'
                                 AND s.retryable AND NOT s.permanent AND s.attempts < s.max_attempts
                                THEN clock_timestamp() + pawl.backoff(s.attempts, coalesce(s.backoff, '{}'), s.backoff_request) ELSE s.next_retry_at END
     WHERE s.ctid = ANY (reported);
    GET DIAGNOSTICS settled = ROW_COUNT;
    RETURN settled;
END
$function$;
COMMENT ON FUNCTION pawl_dag._settle_results(uuid[]) IS 'internal: completes, retries or fails the steps that workers reported';

-- Where a task goes from its state, given what its steps do; null: it stays.
CREATE FUNCTION pawl_dag._next_move(t pawl_dag.tasks, OUT event text, OUT to_state text)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
AS $function$
DECLARE
    something_to_do boolean := t.steps_ready > 0 OR t.steps_failed > 0 OR t.steps_in_flight = 0;
BEGIN
    CASE t.state
        WHEN 'pending' THEN
            event := 'Start'; to_state := 'initializing';
        WHEN 'initializing' THEN
            IF t.steps_total = 0 THEN event := 'NoStepsFound'; to_state := 'complete';
            ELSIF t.steps_ready > 0 THEN event := 'ReadyStepsFound'; to_state := 'enqueuing_steps';
            ELSE event := 'NoDependenciesReady'; to_state := 'waiting_for_dependencies';
            END IF;
        WHEN 'steps_in_process' THEN
            IF t.steps_in_flight > 0 AND something_to_do THEN event := 'StepCompleted'; to_state := 'evaluating_results';
            ELSIF t.steps_in_flight = 0 AND t.steps_waiting > 0 AND t.steps_ready = 0 AND t.steps_failed = 0 THEN
                event := 'StepFailed'; to_state := 'waiting_for_retry';
            ELSIF t.steps_in_flight = 0 THEN event := 'AllStepsCompleted'; to_state := 'evaluating_results';
            END IF;
        WHEN 'waiting_for_dependencies' THEN
            IF something_to_do THEN event := 'DependenciesReady'; to_state := 'evaluating_results'; END IF;
        WHEN 'waiting_for_retry' THEN
            IF t.steps_ready > 0 AND t.steps_failed = 0 THEN event := 'RetryReady'; to_state := 'enqueuing_steps';
            ELSIF t.steps_waiting = 0 OR t.steps_failed > 0 THEN event := 'StepCompleted'; to_state := 'evaluating_results';
            END IF;
        WHEN 'evaluating_results' THEN
            IF t.steps_failed > 0 AND (t.failure_policy = 'block' OR t.steps_ready + t.steps_in_flight + t.steps_waiting = 0) THEN
                event := 'PermanentFailure'; to_state := 'blocked_by_failures';
            ELSIF t.steps_ready > 0 THEN event := 'ReadyStepsFound'; to_state := 'enqueuing_steps';
            ELSIF t.steps_satisfied + t.steps_cancelled = t.steps_total THEN event := 'AllStepsSuccessful'; to_state := 'complete';
            ELSIF t.steps_in_flight = 0 AND t.steps_waiting > 0 THEN event := 'StepFailed'; to_state := 'waiting_for_retry';
            ELSE event := 'NoDependenciesReady'; to_state := 'waiting_for_dependencies';
            END IF;
        ELSE NULL;
    END CASE;
END
$function$;
COMMENT ON FUNCTION pawl_dag._next_move(pawl_dag.tasks) IS 'internal: the event that moves a task on, and where to; null when it has to wait';

-- Moves those of the picked tasks that are in one of the states, each by its event. How many are complete.
CREATE FUNCTION pawl_dag._move_tasks(picked uuid[], from_states text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
DECLARE
    move record;
    finished bigint := 0;
BEGIN
    FOR move IN
        SELECT m.event, m.to_state, array_agg(t.task_uuid) AS tasks
          FROM pawl_dag.tasks t CROSS JOIN LATERAL pawl_dag._next_move(t) m
         WHERE t.task_uuid = ANY (picked) AND t.state = ANY (from_states) AND m.event IS NOT NULL GROUP BY m.event, m.to_state
    LOOP
        PERFORM set_config('pawl.event', move.event, true);
        IF move.to_state IN ('initializing', 'enqueuing_steps', 'evaluating_results') THEN
            UPDATE pawl_dag.tasks t SET state = move.to_state, evaluate = false, entered_at = clock_timestamp(), lease_until = 'infinity'
             WHERE t.task_uuid = ANY (move.tasks);
        ELSE
            UPDATE pawl_dag.tasks t SET state = move.to_state, evaluate = false, entered_at = clock_timestamp() WHERE t.task_uuid = ANY (move.tasks);
        END IF;
        IF move.to_state = 'complete' THEN
            finished := finished + cardinality(move.tasks);
        END IF;
    END LOOP;
    PERFORM set_config('pawl.event', '', true);
    RETURN finished;
END
$function$;
COMMENT ON FUNCTION pawl_dag._move_tasks(uuid[], text[]) IS 'internal: the next arrow of many tasks';

-- Steps whose parents are satisfied go to the workers, and their tasks into process. The number of steps.
CREATE FUNCTION pawl_dag._enqueue_steps(picked uuid[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
DECLARE
    waiting uuid[] := ARRAY(SELECT t.task_uuid FROM pawl_dag.tasks t WHERE t.task_uuid = ANY (picked) AND t.state = 'enqueuing_steps');
    ready tid[];
    counts bigint[];
    enqueued bigint;
BEGIN
    IF waiting = '{}' THEN
        RETURN 0;
    END IF;
    ready := ARRAY(SELECT s.ctid FROM pawl_dag.steps s
                    WHERE s.task_uuid = ANY (waiting) AND s.state = 'pending' AND s.unsatisfied_parents = 0 FOR NO KEY UPDATE SKIP LOCKED);
    -- that they are no longer ready, but in flight, is written below with the move of the task
    PERFORM set_config('pawl_dag.counted', pg_trigger_depth()::text, true);
    WITH moved AS (
        UPDATE pawl_dag.steps s SET state = 'enqueued' WHERE s.ctid = ANY (ready)
        RETURNING s.task_uuid),
    counted AS (SELECT m.task_uuid, count(*) AS n FROM moved m GROUP BY m.task_uuid)
    SELECT array_agg(coalesce(c.n, 0) ORDER BY w.n), sum(c.n) INTO counts, enqueued
      FROM unnest(waiting) WITH ORDINALITY w(task, n) LEFT JOIN counted c ON c.task_uuid = w.task;
    PERFORM set_config('pawl_dag.counted', '', true), set_config('pawl.event', 'StepsEnqueued', true);
    UPDATE pawl_dag.tasks t
       SET state = 'steps_in_process', evaluate = false, entered_at = clock_timestamp(), lease_until = 'infinity',
           steps_ready = t.steps_ready - w.n, steps_in_flight = t.steps_in_flight + w.n
      FROM unnest(waiting, counts) w(task, n) WHERE t.task_uuid = w.task;
    PERFORM set_config('pawl.event', '', true);
    RETURN coalesce(enqueued, 0);
END
$function$;
COMMENT ON FUNCTION pawl_dag._enqueue_steps(uuid[]) IS 'internal: enqueues the ready steps of tasks that enqueue';

CREATE FUNCTION pawl_dag.orchestrate(batch integer DEFAULT 100, OUT tasks integer, OUT settled bigint, OUT enqueued bigint, OUT finished bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    picked uuid[];
    caller text := current_setting('pawl.processor', true);
    called_event text := current_setting('pawl.event', true);
BEGIN
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 10000 THEN
        PERFORM pawl._raise('22023', 'batch must be from 1 to 10000');
    END IF;
    picked := pawl_dag._pick_tasks(batch);
    tasks := cardinality(picked);
    settled := 0;
    enqueued := 0;
    finished := 0;
    IF tasks = 0 THEN
        RETURN;
    END IF;
    PERFORM set_config('pawl.processor', pawl_dag.engine()::text, true), set_config('pawl.event', '', true),
            set_config('pawl_dag.picked', pg_trigger_depth()::text, true);
    settled := pawl_dag._settle_results(picked);
    PERFORM set_config('pawl_dag.picked', '', true);
    PERFORM pawl_dag._move_tasks(picked, '{pending}');
    finished := pawl_dag._move_tasks(picked, '{initializing,steps_in_process,waiting_for_dependencies,waiting_for_retry}');
    finished := finished + pawl_dag._move_tasks(picked, '{evaluating_results}');
    enqueued := pawl_dag._enqueue_steps(picked);
    -- what was looked at and stays where it is
    UPDATE pawl_dag.tasks t SET evaluate = false WHERE t.task_uuid = ANY (picked) AND t.evaluate;
    PERFORM set_config('pawl.processor', coalesce(caller, ''), true), set_config('pawl.event', coalesce(called_event, ''), true);
END
$function$;
COMMENT ON FUNCTION pawl_dag.orchestrate(integer) IS
'moves on at most batch tasks: starts them, reads the results of workers, makes successors ready and enqueues them, finishes what is done. Returns how many tasks it looked at, results it read, steps it enqueued, and tasks that completed. Call it again while tasks is not 0';
