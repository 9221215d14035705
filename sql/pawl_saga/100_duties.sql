-- What time brings: attempts whose wait is over, and work that takes too long.

CREATE FUNCTION pawl_saga.begin_attempts(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    due record;
BEGIN
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 10000 THEN
        PERFORM pawl._raise('22023', 'batch must be from 1 to 10000');
    END IF;
    done := 0;
    FOR due IN
        SELECT f.flow_uuid, array_agg(r.node ORDER BY r.node) AS nodes
          FROM (SELECT x.flow_uuid FROM pawl_saga.flows x
                 WHERE x.state = 'RUNNING' AND x.flow_uuid IN (SELECT r.flow_uuid FROM pawl_saga.retries r WHERE r.due_at <= clock_timestamp() ORDER BY r.due_at LIMIT batch)
                 ORDER BY x.flow_uuid FOR NO KEY UPDATE SKIP LOCKED) f
          JOIN pawl_saga.retries r ON r.flow_uuid = f.flow_uuid AND r.due_at <= clock_timestamp() GROUP BY f.flow_uuid
    LOOP
        PERFORM set_config('pawl_saga.following', 'on', true);
        PERFORM pawl_saga._examine(due.flow_uuid, n) FROM unnest(due.nodes) n;
        PERFORM pawl_saga._finish(ARRAY[due.flow_uuid]);
        PERFORM set_config('pawl_saga.following', '', true);
        done := done + cardinality(due.nodes);
    END LOOP;
    SELECT min(r.due_at) INTO next_at FROM pawl_saga.retries r WHERE r.due_at > clock_timestamp();
END
$function$;
COMMENT ON FUNCTION pawl_saga.begin_attempts(integer) IS
'begins the next attempts of retries whose backoff is over; returns how many, and when the next one is due. A duty';

CREATE FUNCTION pawl_saga.time_out_tasks(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    late_flows uuid[];
    late_nodes integer[];
BEGIN
    IF batch IS NULL OR batch NOT BETWEEN 1 AND 10000 THEN
        PERFORM pawl._raise('22023', 'batch must be from 1 to 10000');
    END IF;
    PERFORM FROM pawl_saga.flows f
      WHERE f.flow_uuid IN (SELECT t.flow_uuid FROM pawl_saga.tasks t WHERE t.timeout_at <= clock_timestamp() ORDER BY t.timeout_at LIMIT batch) ORDER BY f.flow_uuid FOR NO KEY UPDATE;
    SELECT array_agg(l.flow_uuid), array_agg(l.node) INTO late_flows, late_nodes
      FROM (SELECT t.flow_uuid, t.node FROM pawl_saga.tasks t WHERE t.timeout_at <= clock_timestamp() ORDER BY t.timeout_at LIMIT batch FOR NO KEY UPDATE SKIP LOCKED) l;
    PERFORM set_config('pawl.event', 'time_out', true);
    UPDATE pawl_saga.tasks t
       SET state = CASE t.state WHEN 'RUNNING' THEN 'FAILURE' ELSE 'REVERT_FAILURE' END,
           failure = CASE t.state WHEN 'RUNNING' THEN jsonb_build_object('message', 'timed out', 'type', 'timeout') ELSE t.failure END,
           revert_failure = CASE t.state WHEN 'REVERTING' THEN jsonb_build_object('message', 'timed out', 'type', 'timeout') END
      FROM unnest(late_flows, late_nodes) l(flow, node)
     WHERE t.flow_uuid = l.flow AND t.node = l.node AND t.state IN ('RUNNING', 'REVERTING');
    GET DIAGNOSTICS done = ROW_COUNT;
    PERFORM set_config('pawl.event', '', true);
    SELECT min(t.timeout_at) INTO next_at FROM pawl_saga.tasks t WHERE t.timeout_at > clock_timestamp();
END
$function$;
COMMENT ON FUNCTION pawl_saga.time_out_tasks(integer) IS
'fails tasks that take longer than their timeout_seconds (a revert: revert_timeout_seconds) and fences their workers out; returns how many, and when the next one is due. A duty; needs pawl_operator';
