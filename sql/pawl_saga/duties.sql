-- Duties of time: attempts whose backoff has passed, tasks that take too long, and waits that end.

CREATE FUNCTION pawl_saga.begin_attempts(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    due record;
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    done := 0;
    FOR due IN
        SELECT f.flow_uuid, array_agg(r.node ORDER BY r.node) AS nodes
          FROM (SELECT x.flow_uuid FROM pawl_saga.flows x
                 WHERE x.state = 'RUNNING'
                   AND x.flow_uuid IN (SELECT r.flow_uuid FROM pawl_saga.retries r
                       JOIN pawl_saga.flows w ON w.flow_uuid = r.flow_uuid AND w.state = 'RUNNING'
                                        WHERE r.due_at <= clock_timestamp()
                       AND NOT EXISTS (SELECT FROM pawl_saga.set_aside s WHERE s.flow_uuid = w.flow_uuid
                           AND s.due_at > clock_timestamp()) ORDER BY r.due_at LIMIT batch)
                 ORDER BY x.flow_uuid FOR NO KEY UPDATE SKIP LOCKED) f
          JOIN pawl_saga.retries r ON r.flow_uuid = f.flow_uuid AND r.due_at <= clock_timestamp() GROUP BY f.flow_uuid
    LOOP
        done := done + pawl_saga._look_again_or_set_aside(due.flow_uuid, due.nodes, 'begin_attempts');
    END LOOP;
    SELECT least((SELECT min(r.due_at) FROM pawl_saga.retries r WHERE r.due_at > clock_timestamp()),
        (SELECT min(s.due_at) FROM pawl_saga.set_aside s WHERE s.due_at > clock_timestamp()))
      INTO next_at;
END
$function$;
COMMENT ON FUNCTION pawl_saga.begin_attempts(integer) IS
'Begins the next attempts of retries whose backoff is over. A duty: call it periodically.
batch: 1 to 10000; default 100. Returns done (how many) and next_at (when the next attempt is due; null: none).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_saga.begin_attempts()';

CREATE FUNCTION pawl_saga.time_out_tasks(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    late uuid;
    moved bigint;
    said text;
    code text;
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    done := 0;
    FOR late IN
        SELECT f.flow_uuid FROM pawl_saga.flows f
         WHERE f.flow_uuid IN (SELECT t.flow_uuid FROM pawl_saga.tasks t
                                WHERE t.timeout_at <= clock_timestamp()
                                  AND NOT EXISTS (SELECT FROM pawl_saga.set_aside s
                                      WHERE s.flow_uuid = t.flow_uuid AND s.due_at > clock_timestamp())
                                ORDER BY t.timeout_at LIMIT batch)
         ORDER BY f.flow_uuid FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        BEGIN
            PERFORM set_config('pawl.event', 'time_out', true);
            UPDATE pawl_saga.tasks t
               SET state = CASE t.state WHEN 'RUNNING' THEN 'FAILURE' ELSE 'REVERT_FAILURE' END,
                   failure = CASE t.state WHEN 'RUNNING'
                       THEN jsonb_build_object('message', 'timed out', 'type', 'timeout') ELSE t.failure END,
                   revert_failure = CASE t.state
                       WHEN 'REVERTING' THEN jsonb_build_object('message', 'timed out', 'type', 'timeout') END
             WHERE t.flow_uuid = late AND t.timeout_at <= clock_timestamp() AND t.state IN ('RUNNING', 'REVERTING')
               AND t.node IN (SELECT x.node FROM pawl_saga.tasks x
                   WHERE x.flow_uuid = late AND x.timeout_at <= clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED);
            GET DIAGNOSTICS moved = ROW_COUNT;
            DELETE FROM pawl_saga.set_aside s WHERE s.flow_uuid = late;
            done := done + moved;
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            IF pawl_saga._ends_duty(SQLSTATE) THEN
                RAISE;
            END IF;
            GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
            PERFORM pawl_saga._set_aside(late, 'time_out_tasks', code, said);
        END;
        PERFORM set_config('pawl.event', '', true);
    END LOOP;
    SELECT least((SELECT min(t.timeout_at) FROM pawl_saga.tasks t WHERE t.timeout_at > clock_timestamp()),
                 (SELECT min(s.due_at) FROM pawl_saga.set_aside s WHERE s.due_at > clock_timestamp())) INTO next_at;
END
$function$;
COMMENT ON FUNCTION pawl_saga.time_out_tasks(integer) IS
'Fails tasks that run longer than timeout_seconds (a revert: revert_timeout_seconds) and revokes their leases. A
duty: call it periodically.
batch: 1 to 10000; default 100. Returns done (how many) and next_at (when the next task times out; null: none).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator.
Example: SELECT * FROM pawl_saga.time_out_tasks()';

CREATE FUNCTION pawl_saga.end_waits(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    due record;
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    done := 0;
    FOR due IN
        SELECT f.flow_uuid, array_agg(t.node ORDER BY t.node) AS nodes
          FROM (SELECT x.flow_uuid FROM pawl_saga.flows x
                 WHERE x.flow_uuid IN (SELECT t.flow_uuid FROM pawl_saga.tasks t
                     JOIN pawl_saga.flows w ON w.flow_uuid = t.flow_uuid AND w.state = 'RUNNING' AND NOT w.broken
                                        WHERE t.wait_until <= clock_timestamp() AND t.wait_until <> 'infinity'
                                            AND t.intention = 'EXECUTE'
                     AND NOT EXISTS (SELECT FROM pawl_saga.set_aside s WHERE s.flow_uuid = w.flow_uuid
                         AND s.due_at > clock_timestamp()) ORDER BY t.wait_until LIMIT batch)
                 ORDER BY x.flow_uuid FOR NO KEY UPDATE SKIP LOCKED) f
          JOIN pawl_saga.tasks t ON t.flow_uuid = f.flow_uuid AND t.wait_until <= clock_timestamp()
              AND t.intention = 'EXECUTE' GROUP BY f.flow_uuid
    LOOP
        done := done + pawl_saga._look_again_or_set_aside(due.flow_uuid, due.nodes, 'end_waits');
    END LOOP;
    SELECT least((SELECT min(t.wait_until) FROM pawl_saga.tasks t
        WHERE t.wait_until > clock_timestamp() AND t.wait_until <> 'infinity'),
                 (SELECT min(s.due_at) FROM pawl_saga.set_aside s WHERE s.due_at > clock_timestamp())) INTO next_at;
END
$function$;
COMMENT ON FUNCTION pawl_saga.end_waits(integer) IS
'Ends the waits of tasks that are due: a task with wait_seconds succeeds, a task whose signal did not arrive within
timeout_seconds fails. A duty: call it periodically.
batch: 1 to 10000; default 100. Returns done (how many) and next_at (when the next wait ends; null: none).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_saga.end_waits()';
