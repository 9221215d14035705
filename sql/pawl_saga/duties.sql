-- Duties of time: attempts whose backoff has passed, tasks that take too long, and waits that end. Each reads an index
-- in the order of time, only what is due, and passes over what it cannot do before it counts its batch: flows that are
-- locked, broken or set aside, and those that wait for an answer. What would imply the condition of another index
-- stands in a CASE: plans are also made where nothing is known of the tables.

CREATE FUNCTION pawl_saga.begin_attempts(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    due record;
    now constant timestamptz := clock_timestamp();
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    done := 0;
    FOR due IN
        SELECT l.flow_uuid, ARRAY(SELECT r.node FROM pawl_saga.retries r WHERE r.flow_uuid = l.flow_uuid
                   AND CASE WHEN r.due_at <= now THEN r.blockers = 0 ELSE false END ORDER BY r.node) AS nodes
          FROM (SELECT DISTINCT k.flow_uuid
                  FROM (SELECT f.flow_uuid FROM pawl_saga.flows f JOIN pawl_saga.retries x ON x.flow_uuid = f.flow_uuid
                         WHERE x.due_at <= now AND x.blockers = 0 AND x.intention = 'RETRY'
                           AND x.state IN ('SUCCESS', 'RETRYING')
                           AND CASE WHEN f.broken THEN false ELSE f.state = 'RUNNING' END
                           AND NOT EXISTS (SELECT FROM pawl_saga.set_aside s
                               WHERE s.flow_uuid = f.flow_uuid AND s.due_at > now)
                         ORDER BY x.due_at LIMIT batch FOR NO KEY UPDATE OF f SKIP LOCKED) k) l
         ORDER BY l.flow_uuid
    LOOP
        done := done + pawl_saga._look_again_or_set_aside(due.flow_uuid, due.nodes, 'begin_attempts');
    END LOOP;
    SELECT least((SELECT min(r.due_at) FROM pawl_saga.retries r WHERE r.due_at > now),
        (SELECT min(s.due_at) FROM pawl_saga.set_aside s WHERE s.due_at > now))
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
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    now constant timestamptz := clock_timestamp();
    late uuid;
    moved bigint;
    said text;
    code text;
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    done := 0;
    FOR late IN
        SELECT DISTINCT k.flow_uuid
          FROM (SELECT f.flow_uuid FROM pawl_saga.flows f JOIN pawl_saga.tasks t ON t.flow_uuid = f.flow_uuid
                 WHERE t.timeout_at <= now AND t.worker IS NOT NULL AND t.state IN ('RUNNING', 'REVERTING')
                   AND NOT EXISTS (SELECT FROM pawl_saga.set_aside s
                       WHERE s.flow_uuid = f.flow_uuid AND s.due_at > now)
                 ORDER BY t.timeout_at LIMIT batch FOR NO KEY UPDATE OF f, t SKIP LOCKED) k
         ORDER BY k.flow_uuid
    LOOP
        BEGIN
            PERFORM set_config('pawl.event', 'time_out', true);
            UPDATE pawl_saga.tasks t
               SET state = CASE t.state WHEN 'RUNNING' THEN 'FAILURE' ELSE 'REVERT_FAILURE' END,
                   failure = CASE t.state WHEN 'RUNNING'
                       THEN jsonb_build_object('message', 'timed out', 'type', 'timeout') ELSE t.failure END,
                   revert_failure = CASE t.state
                       WHEN 'REVERTING' THEN jsonb_build_object('message', 'timed out', 'type', 'timeout') END
             WHERE t.flow_uuid = late AND t.timeout_at <= now AND t.worker IS NOT NULL
               AND t.state IN ('RUNNING', 'REVERTING')
               AND t.node IN (SELECT x.node FROM pawl_saga.tasks x
                   WHERE x.flow_uuid = late AND x.timeout_at <= now FOR NO KEY UPDATE SKIP LOCKED);
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
    SELECT least((SELECT min(t.timeout_at) FROM pawl_saga.tasks t WHERE t.timeout_at > now),
                 (SELECT min(s.due_at) FROM pawl_saga.set_aside s WHERE s.due_at > now)) INTO next_at;
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
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
DECLARE
    due record;
    now constant timestamptz := clock_timestamp();
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    done := 0;
    FOR due IN
        SELECT l.flow_uuid, ARRAY(SELECT t.node FROM pawl_saga.tasks t WHERE t.flow_uuid = l.flow_uuid
                   AND CASE WHEN t.wait_until <= now THEN t.blockers = 0 AND t.state = 'PENDING'
                       AND t.intention = 'EXECUTE' ELSE false END ORDER BY t.node) AS nodes
          FROM (SELECT DISTINCT k.flow_uuid
                  FROM (SELECT f.flow_uuid FROM pawl_saga.flows f JOIN pawl_saga.tasks x ON x.flow_uuid = f.flow_uuid
                         WHERE x.wait_until <= now AND x.wait_until <> 'infinity' AND x.blockers = 0
                           AND x.state = 'PENDING' AND x.intention = 'EXECUTE'
                           AND CASE WHEN f.broken THEN false ELSE f.state = 'RUNNING' END
                           AND NOT EXISTS (SELECT FROM pawl_saga.set_aside s
                               WHERE s.flow_uuid = f.flow_uuid AND s.due_at > now)
                           AND NOT EXISTS (SELECT FROM pawl_saga.questions q
                               WHERE q.flow_uuid = f.flow_uuid AND q.node = x.node)
                         ORDER BY x.wait_until LIMIT batch FOR NO KEY UPDATE OF f SKIP LOCKED) k) l
         ORDER BY l.flow_uuid
    LOOP
        done := done + pawl_saga._look_again_or_set_aside(due.flow_uuid, due.nodes, 'end_waits');
    END LOOP;
    SELECT least((SELECT min(t.wait_until) FROM pawl_saga.tasks t
        WHERE t.wait_until > now AND t.wait_until <> 'infinity'),
                 (SELECT min(s.due_at) FROM pawl_saga.set_aside s WHERE s.due_at > now)) INTO next_at;
END
$function$;
COMMENT ON FUNCTION pawl_saga.end_waits(integer) IS
'Ends the waits of tasks that are due: a task with wait_seconds succeeds, a task whose signal did not arrive within
timeout_seconds fails. A duty: call it periodically.
batch: 1 to 10000; default 100. Returns done (how many) and next_at (when the next wait ends; null: none).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_saga.end_waits()';
