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
    candidates uuid[];
    picked uuid[];
BEGIN
    SELECT coalesce(array_agg(DISTINCT c.task_uuid), '{}') INTO candidates
      FROM ((SELECT s.task_uuid FROM pawl_dag.steps s
              WHERE s.state = 'enqueued_for_orchestration' OR s.state = 'enqueued_as_error_for_orchestration' ORDER BY s.task_uuid LIMIT batch * 4)
            UNION ALL (SELECT t.task_uuid FROM pawl_dag.tasks t WHERE t.evaluate AND t.state <> 'pending' ORDER BY t.task_uuid LIMIT batch)
            UNION ALL (SELECT t.task_uuid FROM pawl_dag.tasks t WHERE t.state = 'pending' ORDER BY t.priority DESC, t.created_at, t.task_uuid LIMIT batch)) c;
    SELECT coalesce(array_agg(l.task_uuid), '{}') INTO picked
      FROM (SELECT t.task_uuid FROM pawl_dag.tasks t
             WHERE t.task_uuid = ANY (candidates) AND (t.processor_uuid IS NULL OR t.processor_uuid = pawl_dag.engine())
             ORDER BY t.task_uuid LIMIT batch FOR NO KEY UPDATE SKIP LOCKED) l;
    RETURN picked;
END
$function$;
COMMENT ON FUNCTION pawl_dag._pick_tasks(integer) IS 'internal: tasks that wait for the orchestrator, locked';

-- Reads the results that workers reported. The number of steps.
CREATE FUNCTION pawl_dag._settle_results(picked uuid[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    settled bigint;
    more bigint;
BEGIN
    UPDATE pawl_dag.steps s
       SET state = CASE WHEN s.state = 'enqueued_for_orchestration' THEN 'complete'
                        WHEN s.retryable AND NOT s.permanent AND s.attempts < s.max_attempts THEN 'waiting_for_retry'
                        ELSE 'error' END
     WHERE s.task_uuid = ANY (picked) AND s.backoff_request IS NULL
       AND (s.state = 'enqueued_for_orchestration' OR s.state = 'enqueued_as_error_for_orchestration');
    GET DIAGNOSTICS settled = ROW_COUNT;
    -- a wait that the worker asked for replaces the computed one, under the same cap
    UPDATE pawl_dag.steps s
       SET state = CASE WHEN s.state = 'enqueued_for_orchestration' THEN 'complete'
                        WHEN s.retryable AND NOT s.permanent AND s.attempts < s.max_attempts THEN 'waiting_for_retry'
                        ELSE 'error' END,
           next_retry_at = CASE WHEN s.state = 'enqueued_as_error_for_orchestration' AND s.retryable AND NOT s.permanent AND s.attempts < s.max_attempts
                                THEN clock_timestamp() + pawl.backoff(s.attempts, coalesce(s.backoff, '{}'), s.backoff_request) END
     WHERE s.task_uuid = ANY (picked) AND s.backoff_request IS NOT NULL
       AND (s.state = 'enqueued_for_orchestration' OR s.state = 'enqueued_as_error_for_orchestration');
    GET DIAGNOSTICS more = ROW_COUNT;
    RETURN settled + more;
END
$function$;
COMMENT ON FUNCTION pawl_dag._settle_results(uuid[]) IS 'internal: completes, retries or fails the steps that workers reported';

-- Moves the picked tasks by an event, where their state and a condition fit. The number of tasks.
CREATE FUNCTION pawl_dag._move_tasks(picked uuid[], event text, from_states text[], to_state text, condition text) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    moved bigint;
BEGIN
    PERFORM set_config('pawl.event', event, true);
    EXECUTE format('UPDATE pawl_dag.tasks t SET state = $1, evaluate = false%s WHERE t.task_uuid = ANY ($2) AND t.state = ANY ($3) AND (%s)',
                   CASE WHEN to_state IN ('initializing', 'enqueuing_steps', 'steps_in_process', 'evaluating_results')
                        THEN ', lease_until = ''infinity''' ELSE '' END, condition)
      USING to_state, picked, from_states;
    GET DIAGNOSTICS moved = ROW_COUNT;
    PERFORM set_config('pawl.event', '', true);
    RETURN moved;
END
$function$;
COMMENT ON FUNCTION pawl_dag._move_tasks(uuid[], text, text[], text, text) IS 'internal: one arrow for many tasks';

-- Steps whose parents are satisfied go to the workers.
CREATE FUNCTION pawl_dag._enqueue_steps(picked uuid[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
DECLARE
    enqueued bigint;
BEGIN
    UPDATE pawl_dag.steps s SET state = 'enqueued'
      FROM pawl_dag.tasks t
     WHERE t.task_uuid = ANY (picked) AND t.state = 'enqueuing_steps'
       AND s.task_uuid = t.task_uuid AND s.state = 'pending' AND s.unsatisfied_parents = 0;
    GET DIAGNOSTICS enqueued = ROW_COUNT;
    RETURN enqueued;
END
$function$;
COMMENT ON FUNCTION pawl_dag._enqueue_steps(uuid[]) IS 'internal: enqueues the ready steps of tasks that enqueue';

CREATE FUNCTION pawl_dag.orchestrate(batch integer DEFAULT 100, OUT tasks integer, OUT settled bigint, OUT enqueued bigint, OUT finished bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    picked uuid[];
    caller text := current_setting('pawl.processor', true);
    called_event text := current_setting('pawl.event', true);
    open_work constant text := 't.steps_ready > 0 OR t.steps_failed > 0 OR t.steps_in_flight = 0';
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
    PERFORM set_config('pawl.processor', pawl_dag.engine()::text, true), set_config('pawl.event', '', true);
    settled := pawl_dag._settle_results(picked);

    PERFORM pawl_dag._move_tasks(picked, 'Start', '{pending}', 'initializing', 'true');
    finished := finished + pawl_dag._move_tasks(picked, 'NoStepsFound', '{initializing}', 'complete', 't.steps_total = 0');
    PERFORM pawl_dag._move_tasks(picked, 'NoDependenciesReady', '{initializing}', 'waiting_for_dependencies', 't.steps_total > 0 AND t.steps_ready = 0');

    PERFORM pawl_dag._move_tasks(picked, 'StepCompleted', '{steps_in_process}', 'evaluating_results', 't.steps_in_flight > 0 AND (' || open_work || ')');
    PERFORM pawl_dag._move_tasks(picked, 'AllStepsCompleted', '{steps_in_process}', 'evaluating_results',
        't.steps_in_flight = 0 AND NOT (t.steps_waiting > 0 AND t.steps_ready = 0 AND t.steps_failed = 0)');
    PERFORM pawl_dag._move_tasks(picked, 'StepFailed', '{steps_in_process}', 'waiting_for_retry', 't.steps_in_flight = 0');
    PERFORM pawl_dag._move_tasks(picked, 'DependenciesReady', '{waiting_for_dependencies}', 'evaluating_results', open_work);
    PERFORM pawl_dag._move_tasks(picked, 'RetryReady', '{waiting_for_retry}', 'enqueuing_steps', 't.steps_ready > 0 AND t.steps_failed = 0');
    PERFORM pawl_dag._move_tasks(picked, 'StepCompleted', '{waiting_for_retry}', 'evaluating_results', 't.steps_waiting = 0 OR t.steps_failed > 0');

    PERFORM pawl_dag._move_tasks(picked, 'PermanentFailure', '{evaluating_results}', 'blocked_by_failures',
        't.steps_failed > 0 AND (t.failure_policy = ''block'' OR t.steps_ready + t.steps_in_flight + t.steps_waiting = 0)');
    PERFORM pawl_dag._move_tasks(picked, 'ReadyStepsFound', '{initializing,evaluating_results}', 'enqueuing_steps', 't.steps_ready > 0');
    finished := finished + pawl_dag._move_tasks(picked, 'AllStepsSuccessful', '{evaluating_results}', 'complete',
        't.steps_satisfied + t.steps_cancelled = t.steps_total');
    PERFORM pawl_dag._move_tasks(picked, 'StepFailed', '{evaluating_results}', 'waiting_for_retry', 't.steps_in_flight = 0 AND t.steps_waiting > 0');
    PERFORM pawl_dag._move_tasks(picked, 'NoDependenciesReady', '{evaluating_results}', 'waiting_for_dependencies', 'true');

    enqueued := pawl_dag._enqueue_steps(picked);
    PERFORM pawl_dag._move_tasks(picked, 'StepsEnqueued', '{enqueuing_steps}', 'steps_in_process', 'true');
    -- what was looked at and stays where it is
    UPDATE pawl_dag.tasks t SET evaluate = false WHERE t.task_uuid = ANY (picked) AND t.evaluate;
    PERFORM set_config('pawl.processor', coalesce(caller, ''), true), set_config('pawl.event', coalesce(called_event, ''), true);
END
$function$;
COMMENT ON FUNCTION pawl_dag.orchestrate(integer) IS
'moves on at most batch tasks: starts them, reads the results of workers, makes successors ready and enqueues them, finishes what is done. Returns how many tasks it looked at, results it read, steps it enqueued, and tasks that completed. Call it again while tasks is not 0';
