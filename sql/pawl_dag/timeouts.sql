-- Tasks that take too long: thresholds, a view, the duty that times them out.

CREATE VIEW pawl_dag.task_staleness AS
SELECT t.task_uuid, t.namespace, t.name, t.state, t.entered_at, t.deadline_at, b.threshold, b.stale_at,
       CASE WHEN t.deadline_at <= now() OR b.stale_at <= now() THEN 'stale'
            WHEN t.entered_at + b.threshold * 0.8 <= now()
               AND b.stale_at = t.entered_at + b.threshold THEN 'warning' ELSE 'healthy' END AS health,
       a.action AS staleness_action,
       a.action <> 'none'
       AND coalesce((x.configuration -> 'lifecycle' ->> 'auto_fail_on_timeout')::boolean, true) AS fails,
       a.action <> 'none'
       AND coalesce((x.configuration -> 'lifecycle' ->> 'auto_dlq_on_timeout')::boolean, true) AS records
  FROM pawl_dag.tasks t LEFT JOIN pawl_dag.templates x ON x.template_uuid = t.template_uuid
  CROSS JOIN LATERAL (SELECT coalesce(x.configuration -> 'lifecycle' ->> 'staleness_action', 'dlq') AS action) a
  CROSS JOIN LATERAL (SELECT pawl_dag._threshold(t.state, x.configuration -> 'lifecycle') AS threshold) h
  CROSS JOIN LATERAL (SELECT h.threshold, greatest(t.entered_at + h.threshold, (
      -- a task that waits for a timer is not stale before it
      SELECT max(s.next_retry_at) FROM pawl_dag.steps s
      WHERE s.task_uuid = t.task_uuid AND t.state = 'waiting_for_retry' AND s.state = 'waiting_for_retry'))
      AS stale_at) b
 WHERE t.state = ANY ('{initializing,enqueuing_steps,steps_in_process,evaluating_results,waiting_for_dependencies,'
     'waiting_for_retry}');
COMMENT ON VIEW pawl_dag.task_staleness IS
'tasks under way by how long they are in their state: healthy, warning from 80 % of the threshold on, stale; also '
'stale is what has passed its deadline. fails, records: what pawl_dag.time_out_tasks does to it when it is stale';

-- The tasks that time_out_tasks would change now, and how.
CREATE FUNCTION pawl_dag.stale_tasks(batch integer DEFAULT 100)
RETURNS TABLE (task_uuid uuid, state text, stale_at timestamptz, deadline_at timestamptz, fails boolean,
    gives_up boolean, records boolean)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY INVOKER ROWS 100
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
    SELECT v.task_uuid, v.state, v.stale_at, v.deadline_at, v.fails, v.fails AND v.staleness_action = 'error', v.records
      FROM (SELECT t.task_uuid FROM pawl_dag.tasks t WHERE t.watch_at <= now() ORDER BY t.watch_at) w
      CROSS JOIN LATERAL (SELECT x.* FROM pawl_dag.task_staleness x WHERE x.task_uuid = w.task_uuid OFFSET 0) v
     WHERE v.health = 'stale' AND (v.fails OR v.records AND NOT EXISTS (
               SELECT FROM pawl_dag.dlq d WHERE d.task_uuid = v.task_uuid AND d.resolution_status = 'pending'))
     LIMIT pawl.check_batch(batch, 10000)
$function$;
COMMENT ON FUNCTION pawl_dag.stale_tasks(integer) IS
'Returns tasks that are stale or past their deadline, and what pawl_dag.time_out_tasks would do with them. batch:
how many at most, 1 to 10000; default 100.
Returns task_uuid, state, stale_at, deadline_at, fails (it would be blocked), gives_up (and then end in error) and
records (it would be put into pawl_dag.dlq).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator, pawl_worker, pawl_reader.
Example: SELECT task_uuid, stale_at, fails FROM pawl_dag.stale_tasks()';

-- Tasks that time_out_tasks has locked; checked under the lock. A task without a dead letter gets one.
CREATE FUNCTION pawl_dag._time_out(watched uuid[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET pawl.event = ''
SET pawl.metadata = ''
SET pawl.token = ''
AS $function$
DECLARE
    failing uuid[];
    hopeless uuid[];
    recorded uuid[];
    done bigint;
    more bigint;
BEGIN
    SELECT coalesce(array_agg(v.task_uuid) FILTER (WHERE v.fails), '{}'),
        coalesce(array_agg(v.task_uuid) FILTER (WHERE v.fails AND v.staleness_action = 'error'), '{}'),
           coalesce(array_agg(v.task_uuid) FILTER (WHERE NOT v.fails AND v.records), '{}')
      INTO failing, hopeless, recorded FROM pawl_dag.task_staleness v
      WHERE v.task_uuid = ANY (watched) AND v.health = 'stale';
    INSERT INTO pawl_dag.dlq (task_uuid, original_state, reason, task_snapshot)
    SELECT t.task_uuid, t.state, 'staleness_timeout', pawl_dag._task_snapshot(t.task_uuid) FROM pawl_dag.tasks t
    WHERE t.task_uuid = ANY (recorded)
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS done = ROW_COUNT;
    PERFORM set_config('pawl.event', 'Timeout', true),
        set_config('pawl.metadata', '{"reason": "staleness_timeout"}', true);
    UPDATE pawl_dag.tasks t SET state = 'blocked_by_failures' WHERE t.task_uuid = ANY (failing);
    GET DIAGNOSTICS more = ROW_COUNT;
    PERFORM set_config('pawl.event', 'GiveUp', true);
    UPDATE pawl_dag.tasks t SET state = 'error' WHERE t.task_uuid = ANY (hopeless);
    PERFORM set_config('pawl.event', '', true), set_config('pawl.metadata', '', true);
    -- The others are looked at again when they can be stale: whatever state they are
    -- in by then, none has a shorter threshold.
    UPDATE pawl_dag.tasks t SET watch_at = CASE WHEN v.health = 'stale' THEN now() + t.stale_after
                                                ELSE least(v.stale_at, v.deadline_at, now() + t.stale_after) END
      FROM pawl_dag.task_staleness v
      WHERE v.task_uuid = t.task_uuid AND t.task_uuid = ANY (watched) AND t.watch_at <= now();
    RETURN done + more;
END
$function$;
COMMENT ON FUNCTION pawl_dag._time_out(uuid[]) IS
'internal: blocks or records those of the tasks that are stale, and says when to look at the others again';

-- After an error in timing out one task, which must not stop the others.
CREATE FUNCTION pawl_dag._put_off(late uuid, code text, said text) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET pawl.event = ''
SET pawl.token = ''
AS $function$
BEGIN
    RAISE WARNING USING ERRCODE = code, MESSAGE = format('task %s cannot be timed out: %s', late, said),
        HINT = 'select * from pawl_dag.stale_tasks()';
    UPDATE pawl_dag.tasks t SET watch_at = clock_timestamp() + interval '1 min' WHERE t.task_uuid = late;
    RETURN FOUND;
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl.must_reraise(SQLSTATE) THEN
        RAISE;
    END IF;
    RAISE WARNING 'nor can task % be put off: %', late, SQLERRM;
    RETURN false;
END
$function$;
COMMENT ON FUNCTION pawl_dag._put_off(uuid, text, text) IS
'internal: a task could not be timed out; it is looked at again after a minute (false: not even that)';

CREATE FUNCTION pawl_dag.time_out_tasks(batch integer DEFAULT 100, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $function$
DECLARE
    watched uuid[];
    put_off integer := 0;
    unmoved uuid[] := '{}';  -- what this call could not write, and does not look at again
BEGIN
    PERFORM pawl.check_batch(batch, 10000);
    done := 0;
    WHILE done + put_off < batch LOOP
        SELECT coalesce(array_agg(l.task_uuid), '{}') INTO watched
          FROM (SELECT t.task_uuid FROM pawl_dag.tasks t WHERE t.watch_at <= now() AND t.task_uuid <> ALL (unmoved)
              ORDER BY t.watch_at LIMIT batch - done - put_off FOR NO KEY UPDATE SKIP LOCKED) l;
        EXIT WHEN watched = '{}';
        BEGIN
            done := done + pawl_dag._time_out(watched);
        EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
            FOR i IN 1 .. cardinality(watched) LOOP
                BEGIN
                    done := done + pawl_dag._time_out(watched[i:i]);
                EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
                    IF pawl.must_reraise(SQLSTATE) THEN
                        RAISE;
                    END IF;
                    put_off := put_off + pawl_dag._put_off(watched[i], SQLSTATE, SQLERRM)::integer;
                END;
            END LOOP;
        END;
        -- a trigger can suppress an update
        unmoved := unmoved || ARRAY(SELECT t.task_uuid FROM pawl_dag.tasks t
            WHERE t.task_uuid = ANY (watched) AND t.watch_at <= now());
    END LOOP;
    SELECT min(t.watch_at) INTO next_at FROM pawl_dag.tasks t WHERE t.watch_at IS NOT NULL;
    -- what is due and left is locked: to ask for it without a pause would not help
    IF done + put_off < batch THEN
        next_at := greatest(next_at, CASE WHEN next_at <= now() THEN now() + interval '1 s' END);
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_dag.time_out_tasks(integer) IS
'Blocks tasks that are stale or past their deadline and puts them into pawl_dag.dlq. staleness_action error: also
gives them up; auto_fail_on_timeout false: does not block; auto_dlq_on_timeout false: does not put them into the
table. A duty: call it periodically.
batch: how many at most, 1 to 10000; default 100. Returns done (how many) and next_at (when to call it again; null:
no task can time out).
Errors: 22023 batch out of range; a task that raises an error is put off for a minute with a warning. Privileges:
pawl_admin, pawl_operator.
Example: SELECT * FROM pawl_dag.time_out_tasks()';

CREATE FUNCTION pawl_dag.requeue(task uuid, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
BEGIN ATOMIC SELECT pawl_dag.retry_task(task, reason); END;
COMMENT ON FUNCTION pawl_dag.requeue(uuid, text) IS
'Removes a task from pawl_dag.dlq and continues it as pawl_dag.retry_task does. task: its id. reason: a text for the
log; default null.
Errors: PW001 it cannot be retried in its state; P0002 no such task; 42501 not a pawl_operator. Privileges:
pawl_admin, pawl_operator.
Example: SELECT pawl_dag.requeue(''01890000-0000-7000-8000-000000000001'', ''server is back'')';

CREATE VIEW pawl_dag.dlq_queue AS
SELECT d.*, w.weight + extract(epoch FROM now() - d.dlq_timestamp) / 60 AS urgency
  FROM pawl_dag.dlq d
  CROSS JOIN LATERAL (SELECT CASE d.reason WHEN 'dependency_cycle_detected' THEN 1000
      WHEN 'max_retries_exceeded' THEN 500 WHEN 'staleness_timeout' THEN 100
                                           WHEN 'worker_unavailable' THEN 50 ELSE 10 END AS weight) w
 WHERE d.resolution_status = 'pending';
COMMENT ON VIEW pawl_dag.dlq_queue IS
'pending dead letters; order by urgency desc: the weight of the reason and the minutes they wait';

CREATE VIEW pawl_dag.dlq_reasons AS
SELECT d.reason, count(*) AS entries, count(*) FILTER (WHERE d.resolution_status = 'pending') AS pending,
min(d.dlq_timestamp) AS first_at, max(d.dlq_timestamp) AS last_at
  FROM pawl_dag.dlq d GROUP BY d.reason;
COMMENT ON VIEW pawl_dag.dlq_reasons IS 'dead letters by reason';
