-- What time brings: attempts whose wait is over, and work that takes too long.

CREATE FUNCTION pawl_saga.begin_attempts(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    due record;
BEGIN
    PERFORM pawl_saga._check_batch(batch);
    done := 0;
    FOR due IN
        SELECT f.flow_uuid, array_agg(r.node ORDER BY r.node) AS nodes
          FROM (SELECT x.flow_uuid FROM pawl_saga.flows x
                 WHERE x.state = 'RUNNING'
                   AND x.flow_uuid IN (SELECT r.flow_uuid FROM pawl_saga.retries r JOIN pawl_saga.flows w ON w.flow_uuid = r.flow_uuid AND w.state = 'RUNNING'
                                        WHERE r.due_at <= clock_timestamp() ORDER BY r.due_at LIMIT batch)
                 ORDER BY x.flow_uuid FOR NO KEY UPDATE SKIP LOCKED) f
          JOIN pawl_saga.retries r ON r.flow_uuid = f.flow_uuid AND r.due_at <= clock_timestamp() GROUP BY f.flow_uuid
    LOOP
        PERFORM pawl_saga._look_again(due.flow_uuid, due.nodes);
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
    PERFORM pawl_saga._check_batch(batch);
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

CREATE FUNCTION pawl_saga.end_waits(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    due record;
BEGIN
    PERFORM pawl_saga._check_batch(batch);
    done := 0;
    FOR due IN
        SELECT f.flow_uuid, array_agg(t.node ORDER BY t.node) AS nodes
          FROM (SELECT x.flow_uuid FROM pawl_saga.flows x
                 WHERE x.flow_uuid IN (SELECT t.flow_uuid FROM pawl_saga.tasks t JOIN pawl_saga.flows w ON w.flow_uuid = t.flow_uuid AND w.state = 'RUNNING' AND NOT w.broken
                                        WHERE t.wait_until <= clock_timestamp() AND t.wait_until <> 'infinity' AND t.intention = 'EXECUTE' ORDER BY t.wait_until LIMIT batch)
                 ORDER BY x.flow_uuid FOR NO KEY UPDATE SKIP LOCKED) f
          JOIN pawl_saga.tasks t ON t.flow_uuid = f.flow_uuid AND t.wait_until <= clock_timestamp() AND t.intention = 'EXECUTE' GROUP BY f.flow_uuid
    LOOP
        PERFORM pawl_saga._look_again(due.flow_uuid, due.nodes);
        done := done + cardinality(due.nodes);
    END LOOP;
    SELECT min(t.wait_until) INTO next_at FROM pawl_saga.tasks t WHERE t.wait_until > clock_timestamp() AND t.wait_until <> 'infinity';
END
$function$;
COMMENT ON FUNCTION pawl_saga.end_waits(integer) IS
'ends the waits of tasks whose time has come: those with wait_seconds succeed, those whose signal did not come in timeout_seconds fail; returns how many, and when the next one is due. A duty';
