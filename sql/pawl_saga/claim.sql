-- What workers take: tasks to execute or to revert, and what lost workers left.

-- A duty raised in a flow: it is left alone for a second, then longer each time.
CREATE FUNCTION pawl_saga._set_aside(flow uuid, duty text, code text, said text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    INSERT INTO pawl_saga.set_aside AS s (flow_uuid, duty, due_at, sqlstate, message)
        VALUES (flow, duty, clock_timestamp() + interval '1 s', code, said)
    ON CONFLICT (flow_uuid) DO UPDATE
       SET duty = excluded.duty, attempts = s.attempts + 1, sqlstate = excluded.sqlstate, message = excluded.message,
           due_at = clock_timestamp() + least(interval '10 min', interval '1 s' * 2 ^ least(s.attempts, 10));
    RAISE WARNING 'flow % is set aside: %', flow, said USING ERRCODE = code,
        DETAIL = format('Raised by the duty %s.', duty);
END
$function$;
COMMENT ON FUNCTION pawl_saga._set_aside(uuid, text, text, text) IS 'internal: records that a duty raised in a flow';

-- What a lost worker left, and what was decided to be reverted since: its outcome is unknown, so it has failed.
-- SECURITY DEFINER: it may set flows aside.
CREATE FUNCTION pawl_saga._record_orphans(processor text, queue text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET pawl.event = 'settle'
SET pawl.token = ''
AS $function$
DECLARE
    locked uuid;
    said text;
    code text;
BEGIN
    FOR locked IN
        SELECT x.flow_uuid FROM pawl_saga.flows x
         WHERE x.flow_uuid IN (SELECT t.flow_uuid FROM pawl_saga.tasks t
                                WHERE t.queue = _record_orphans.queue AND t.worker IS NULL AND t.state = 'RUNNING'
                                    AND t.intention = 'REVERT')
           AND NOT EXISTS (SELECT FROM pawl_saga.set_aside s
               WHERE s.flow_uuid = x.flow_uuid AND s.due_at > clock_timestamp())
         ORDER BY x.flow_uuid FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        BEGIN
            UPDATE pawl_saga.tasks t SET state = 'FAILURE', worker = processor
             WHERE t.flow_uuid = locked AND t.queue = _record_orphans.queue AND t.worker IS NULL AND t.state = 'RUNNING'
                 AND t.intention = 'REVERT';
            DELETE FROM pawl_saga.set_aside s WHERE s.flow_uuid = locked;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl.is_transient(SQLSTATE) AND SQLSTATE NOT LIKE '40%' THEN
                RAISE;
            END IF;
            GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
            PERFORM pawl_saga._set_aside(locked, 'claim', code, said);
        END;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION pawl_saga._record_orphans(text, text) IS
'internal: tasks without a worker that are to be reverted have failed';

-- What a worker is told of tasks that it has taken.
CREATE FUNCTION pawl_saga._as_claimed(tasks pawl_saga.tasks[])
RETURNS TABLE (flow_uuid uuid, node integer, name text, action text, handler text, token bigint, arguments jsonb,
    result jsonb, failure jsonb, failures jsonb, traceparent text, tracestate text)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $function$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT t.flow_uuid, t.node, t.name, CASE t.state WHEN 'RUNNING' THEN 'execute' ELSE 'revert' END,
        CASE t.state WHEN 'RUNNING' THEN t.execute ELSE coalesce(t.revert, t.execute) END,
           t.token, CASE WHEN EXISTS (SELECT FROM pawl_saga.parameters p
               JOIN pawl_saga.flows f ON f.definition_uuid = p.definition_uuid
                                       WHERE f.flow_uuid = t.flow_uuid AND p.node = t.node)
                         THEN pawl_saga.arguments(t.flow_uuid, t.node) ELSE '{}' END,
           t.result, t.failure, CASE WHEN t.state = 'REVERTING' THEN pawl_saga.failures(t.flow_uuid) END, t.traceparent,
           t.tracestate
      FROM unnest(tasks) WITH ORDINALITY t ORDER BY t.ordinality;
END
$function$;
COMMENT ON FUNCTION pawl_saga._as_claimed(pawl_saga.tasks[]) IS 'internal: what pawl_saga.claim says of tasks';

CREATE FUNCTION pawl_saga.claim(processor text, queue text DEFAULT 'default', batch integer DEFAULT 1,
    lease interval DEFAULT NULL)
RETURNS TABLE (flow_uuid uuid, node integer, name text, action text, handler text, token bigint, arguments jsonb,
    result jsonb, failure jsonb, failures jsonb, traceparent text, tracestate text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
SET pawl.event = ''
SET pawl.token = ''
AS $function$
#variable_conflict use_column
DECLARE
    lost pawl_saga.tasks[] := '{}';
    reverts pawl_saga.tasks[] := '{}';
    executes pawl_saga.tasks[];
BEGIN
    PERFORM pawl.check_batch(batch, 10000), pawl.check_lease(lease);
    IF processor IS NULL OR processor = '' THEN
        PERFORM pawl.raise('PW004', 'no processor given', NULL, 'processor => ''...''');
    ELSIF queue = 'sql:' AND NOT pawl_saga._runs_sql() THEN
        PERFORM pawl.raise('42501', 'permission denied to claim from the queue "sql:"',
            'Its tasks are SQL functions; only roles that may run these claim them.',
            'select * from pawl_saga.run_sql_tasks()');
    END IF;
    PERFORM set_config('pawl.processor', processor, true);
    IF EXISTS (SELECT FROM pawl_saga.tasks t
            WHERE t.queue = claim.queue AND t.worker IS NULL AND t.state = 'RUNNING' AND t.intention = 'REVERT') THEN
        PERFORM pawl_saga._record_orphans(processor, queue);
    END IF;
    -- what a lost worker left: the state stays, so no event fires
    IF EXISTS (SELECT FROM pawl_saga.tasks x
            WHERE x.worker IS NULL AND (x.state = 'RUNNING' OR x.state = 'REVERTING') AND x.queue = claim.queue) THEN
        WITH taken AS (
            UPDATE pawl_saga.tasks t SET worker = processor, lease_until = clock_timestamp() + coalesce(lease, '60 s')
              FROM (SELECT x.flow_uuid, x.node FROM pawl_saga.tasks x
                     WHERE x.worker IS NULL AND (x.state = 'RUNNING' OR x.state = 'REVERTING')
                       AND x.queue = claim.queue AND (x.state = 'REVERTING' OR x.intention = 'EXECUTE')
                     ORDER BY x.flow_uuid LIMIT batch FOR NO KEY UPDATE SKIP LOCKED) l
             WHERE t.flow_uuid = l.flow_uuid AND t.node = l.node AND t.worker IS NULL RETURNING t.*)
        SELECT coalesce(array_agg(k::pawl_saga.tasks), '{}') INTO lost FROM taken k;
    END IF;
    IF cardinality(lost) < batch THEN
        -- looked up first: among very many that are to be executed a claim would look for them one by one
        IF EXISTS (SELECT FROM pawl_saga.tasks t WHERE t.queue = claim.queue AND t.due_at IS NULL
                AND t.state = ANY ('{SUCCESS,FAILURE,REVERT_FAILURE}'::text[])) THEN
            SELECT coalesce(array_agg(c), '{}') INTO reverts
                FROM pawl.claim(NULL::pawl_saga.tasks, 'revert', processor, lease, batch - cardinality(lost), queue) c;
        END IF;
        IF cardinality(lost) + cardinality(reverts) < batch THEN
            SELECT coalesce(array_agg(c), '{}') INTO executes
              FROM pawl.claim(NULL::pawl_saga.tasks, 'execute', processor, lease,
                  batch - cardinality(lost) - cardinality(reverts), queue) c;
        END IF;
    END IF;
    RETURN QUERY SELECT c.* FROM pawl_saga._as_claimed(lost || reverts || executes) c;
END
$function$;
COMMENT ON FUNCTION pawl_saga.claim(text, text, integer, interval) IS
'Claims tasks for a worker: first those of lost workers, then those to revert, then those to execute.
pawl.heartbeat(''pawl_saga.tasks'', processor) extends the leases.
processor: the worker. queue: default "default". batch: 1 to 10000; default 1. lease: default 60 s.
Returns flow_uuid, node, name, action (execute or revert), handler, token (the fencing token), arguments (by
parameter), and for a revert result and failure (of the task) and failures (of the flow, by atom); traceparent and
tracestate (of the trace in which the flow started).
Errors: PW004 no processor given; 22023 batch or lease out of range; 42501 tasks of SQL functions, which only
pawl_saga.run_sql_tasks and work_sql_tasks run. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT flow_uuid, node, action, handler, arguments FROM pawl_saga.claim(''worker 1'', batch => 10)';
