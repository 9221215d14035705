-- What workers claim: tasks to execute or to revert, and tasks of lost workers.

-- A flow in which a duty raised an error waits for a second, then longer each time.
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

CREATE FUNCTION pawl_saga._is_outage(sqlstate text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN pawl.is_transient(sqlstate) AND sqlstate NOT LIKE '40%';
END
$function$;
COMMENT ON FUNCTION pawl_saga._is_outage(text) IS
'internal: whether an error is transient and no conflict';

-- As pawl.must_reraise, which workers may not execute.
CREATE FUNCTION pawl_saga._ends_duty(sqlstate text) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN pawl_saga._is_outage(sqlstate) OR pawl.is_transient(sqlstate)
        AND current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
END
$function$;
COMMENT ON FUNCTION pawl_saga._ends_duty(text) IS
'internal: whether an error ends the duty instead of setting a flow aside: a transient one that is no conflict, or a '
'conflict that only a new snapshot ends';

CREATE FUNCTION pawl_saga._count_due(flow uuid, nodes integer[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
BEGIN
    RETURN (SELECT count(*) FROM pawl_saga.tasks t
             WHERE t.flow_uuid = flow AND t.node = ANY (nodes) AND t.wait_until <= clock_timestamp())
         + (SELECT count(*) FROM pawl_saga.retries r
             WHERE r.flow_uuid = flow AND r.node = ANY (nodes) AND r.due_at <= clock_timestamp());
END
$function$;
COMMENT ON FUNCTION pawl_saga._count_due(uuid, integer[]) IS
'internal: how many of some nodes have waited long enough: tasks for a time, retries for their next attempt';

-- Examines nodes of a locked flow for a duty, and returns how many of them are no longer due: 0 if that raises, and the
-- flow is set aside.
CREATE FUNCTION pawl_saga._look_again_or_set_aside(flow uuid, nodes integer[], duty text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    said text;
    code text;
    due constant bigint := pawl_saga._count_due(flow, nodes);
BEGIN
    PERFORM pawl_saga._look_again(flow, nodes);
    DELETE FROM pawl_saga.set_aside s WHERE s.flow_uuid = flow;
    RETURN due - pawl_saga._count_due(flow, nodes);
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl_saga._ends_duty(SQLSTATE) THEN
        RAISE;
    END IF;
    GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
    PERFORM pawl_saga._set_aside(flow, duty, code, said);
    RETURN 0;
END
$function$;
COMMENT ON FUNCTION pawl_saga._look_again_or_set_aside(uuid, integer[], text) IS
'internal: examines nodes of a flow for a duty; a flow that raises is set aside';

-- Tasks of lost workers that were decided to be reverted since: their outcome is unknown, so they have failed. SECURITY
-- DEFINER: it may set flows aside.
CREATE FUNCTION pawl_saga._record_orphans(processor text, queue text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
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
            IF pawl_saga._ends_duty(SQLSTATE) THEN
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

-- As pawl.claim sees it.
CREATE FUNCTION pawl_saga._is_paused(relation regclass, queue text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT EXISTS (SELECT FROM pawl.paused p WHERE p.relation = _is_paused.relation AND p.state_column = 'state'
        AND (p.queue IS NULL OR p.queue = _is_paused.queue) AND (p.until IS NULL OR p.until > clock_timestamp()))
$function$;
COMMENT ON FUNCTION pawl_saga._is_paused(regclass, text) IS 'internal: whether nothing is claimed from a queue';

-- Tasks of lost workers: their state stays, so no event fires.
CREATE FUNCTION pawl_saga._take_lost(processor text, queue text, batch integer, lease interval)
RETURNS SETOF pawl_saga.tasks
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
BEGIN
    IF pawl_saga._is_paused('pawl_saga.tasks', queue) THEN
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE pawl_saga.tasks t
       SET worker = _take_lost.processor, lease_until = clock_timestamp() + coalesce(_take_lost.lease, '60 s')
      FROM (SELECT x.flow_uuid, x.node FROM pawl_saga.tasks x
             WHERE x.worker IS NULL AND (x.state = 'RUNNING' OR x.state = 'REVERTING') AND x.queue = _take_lost.queue
               AND (x.state = 'REVERTING' OR x.intention = 'EXECUTE')
             ORDER BY x.flow_uuid LIMIT batch FOR NO KEY UPDATE SKIP LOCKED) l
     WHERE t.flow_uuid = l.flow_uuid AND t.node = l.node AND t.worker IS NULL RETURNING t.*;
END
$function$;
COMMENT ON FUNCTION pawl_saga._take_lost(text, text, integer, interval) IS
'internal: claims tasks that have lost their workers';

-- The columns that a worker gets of claimed tasks.
CREATE FUNCTION pawl_saga._as_claimed(tasks pawl_saga.tasks[])
RETURNS TABLE (flow_uuid uuid, node integer, name text, action text, handler text, token bigint, arguments jsonb,
    result jsonb, failure jsonb, failures jsonb, traceparent text, tracestate text)
LANGUAGE c VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'pawl_saga_as_claimed';
COMMENT ON FUNCTION pawl_saga._as_claimed(pawl_saga.tasks[]) IS 'internal: what pawl_saga.claim says of tasks';

CREATE FUNCTION pawl_saga.claim(processor text, queue text DEFAULT 'default', batch integer DEFAULT 1,
    lease interval DEFAULT NULL)
RETURNS TABLE (flow_uuid uuid, node integer, name text, action text, handler text, token bigint, arguments jsonb,
    result jsonb, failure jsonb, failures jsonb, traceparent text, tracestate text)
LANGUAGE c VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 10
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'pawl_saga_claim';
COMMENT ON FUNCTION pawl_saga.claim(text, text, integer, interval) IS
'Claims tasks for a worker: first those of lost workers, then those to revert, then those to execute.
pawl.heartbeat(''pawl_saga.tasks'', processor) extends the leases.
processor: the worker. queue: default "default". batch: 1 to 10000; default 1. lease: default 60 s.
Returns flow_uuid, node, name, action (execute or revert), handler, token (the fencing token), arguments (by
parameter), and for a revert result and failure (of the task) and failures (of the flow, by atom); traceparent and
tracestate (of the trace in which the flow started). A task whose arguments cannot be formed, such as more than 256 MB,
fails with that error and is not returned; a revert gets those values and failures that are large cut, with a member
"cut": true.
Errors: PW004 no processor given; 22023 batch or lease out of range; 42501 tasks of SQL functions, which only
pawl_saga.run_sql_tasks and work_sql_tasks run. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT flow_uuid, node, action, handler, arguments FROM pawl_saga.claim(''worker 1'', batch => 10)';
