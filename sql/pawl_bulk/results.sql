-- Ends executions and checks: reports of workers and answers of SQL handlers. Set-based.

-- In seconds, which do not overflow as intervals do; a year is enough.
CREATE FUNCTION pawl_bulk._backoff(s pawl_bulk.steps, tries integer) RETURNS interval
LANGUAGE sql VOLATILE PARALLEL SAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
    SELECT make_interval(
        secs => least(least(extract(epoch FROM s.backoff_base)::double precision * power(2, least(tries, 40)),
            extract(epoch FROM s.backoff_cap)::double precision)
                                       * (1 + random() * s.backoff_jitter), 31536000))
$function$;
COMMENT ON FUNCTION pawl_bulk._backoff(pawl_bulk.steps, integer) IS
'internal: how long work waits after this many tries that failed';

-- outcomes: ok and fail of start work; done, pending and failed of a check. The work of
-- these records is locked by the caller.
CREATE FUNCTION pawl_bulk._record_ends(operations uuid[], row_numbers bigint[], step_indexes integer[], outcomes text[],
        messages text[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    now_at constant timestamptz := clock_timestamp();
    one constant uuid := operations[1];
    step constant integer := step_indexes[1];
    span record;
BEGIN
    SELECT min(u.row_number) AS first, max(u.row_number) AS last, count(*) AS rows,
        bool_and(u.operation = one AND u.step_index = step AND u.outcome = 'ok') AS alike,
        (SELECT s.kind FROM pawl_bulk.operations o
            JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version
             WHERE o.operation = one AND s.step_index = step) AS kind
      INTO span FROM unnest(operations, row_numbers, step_indexes, outcomes)
          u(operation, row_number, step_index, outcome);
    IF span.alike AND span.kind = 'sync' AND span.last - span.first < 2 * span.rows THEN
        -- the usual case: neighbouring rows are read in order
        UPDATE pawl_bulk.records r
            SET state = 'Completed', tries = r.tries + 1, completed_at = now_at, error_message = NULL
         WHERE r.operation = one AND r.row_number BETWEEN span.first AND span.last AND r.step_index = step
           AND (r.row_number IN (SELECT unnest(row_numbers))) IS TRUE;
        RETURN;
    END IF;
    IF 'pending' = ANY (outcomes) THEN
        UPDATE pawl_bulk.work w
           SET state = 'ready', due = least(now_at + s.poll_interval * (1 + random() * s.poll_jitter), w.deadline_at)
          FROM unnest(operations, row_numbers, step_indexes, outcomes) u(operation, row_number, step_index, outcome)
          JOIN pawl_bulk.operations o ON o.operation = u.operation
          JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version AND s.step_index = u.step_index
         WHERE u.outcome = 'pending' AND w.deadline_at > now_at
           AND w.operation = u.operation AND w.row_number = u.row_number AND w.step_index = u.step_index;
    END IF;
    UPDATE pawl_bulk.records r
       SET state = u.to_state, tries = r.tries + u.tried,
           error_type = CASE u.to_state WHEN 'Failed' THEN u.error_type WHEN 'TimedOut' THEN 'Timeout' END,
           error_message = CASE WHEN u.outcome IN ('fail', 'failed') THEN u.message
               WHEN u.to_state = 'TimedOut' THEN 'not done at the last check' END,
           completed_at = CASE WHEN u.to_state NOT IN ('Running', 'WaitingForCompletion') THEN now_at END
      FROM (SELECT x.*, s.error_type, (x.outcome IN ('ok', 'fail'))::integer AS tried,
                   CASE x.outcome WHEN 'done' THEN 'Completed' WHEN 'failed' THEN 'Failed'
                        WHEN 'ok' THEN CASE s.kind WHEN 'sync' THEN 'Completed' ELSE 'WaitingForCompletion' END
                        WHEN 'fail' THEN CASE WHEN q.tries < s.max_retries THEN 'Running' ELSE 'Failed' END
                        WHEN 'pending' THEN CASE WHEN w.deadline_at <= now_at THEN 'TimedOut' END END AS to_state
              FROM unnest(operations, row_numbers, step_indexes, outcomes, messages) x(operation, row_number,
                  step_index, outcome, message)
             CROSS JOIN LATERAL (SELECT y.kind, y.max_retries, y.error_type FROM pawl_bulk.operations o
                 JOIN pawl_bulk.steps y ON y.name = o.definition AND y.version = o.version
                                  WHERE o.operation = x.operation AND y.step_index = x.step_index OFFSET 0) s
              LEFT JOIN LATERAL (SELECT y.tries FROM pawl_bulk.records y
                                  WHERE x.outcome = 'fail' AND y.operation = x.operation AND y.row_number = x.row_number
              AND y.step_index = x.step_index OFFSET 0) q ON true
              LEFT JOIN LATERAL (SELECT y.deadline_at FROM pawl_bulk.work y
                                  WHERE x.outcome = 'pending' AND y.operation = x.operation
              AND y.row_number = x.row_number AND y.step_index = x.step_index OFFSET 0) w ON true
            OFFSET 0) u
     WHERE r.operation = u.operation AND r.row_number = u.row_number AND r.step_index = u.step_index
         AND u.to_state IS NOT NULL;
    -- tries that are left: the record stays Running, its work is due after the backoff, or after the pause that the
    -- function which ran has begun
    IF 'fail' = ANY (outcomes) THEN
        UPDATE pawl_bulk.work w
           SET state = 'ready',
               due = CASE WHEN w.held THEN w.due ELSE now_at + pawl_bulk._backoff(s, r.tries) END
          FROM unnest(operations, row_numbers, step_indexes, outcomes) u(operation, row_number, step_index, outcome)
          JOIN pawl_bulk.records r ON r.operation = u.operation AND r.row_number = u.row_number
              AND r.step_index = u.step_index
          JOIN pawl_bulk.operations o ON o.operation = u.operation
          JOIN pawl_bulk.steps s ON s.name = o.definition AND s.version = o.version AND s.step_index = u.step_index
         WHERE u.outcome = 'fail' AND r.state = 'Running'
           AND w.operation = u.operation AND w.row_number = u.row_number AND w.step_index = u.step_index;
    END IF;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._record_ends(uuid[], bigint[], integer[], text[], text[]) IS
'internal: changes the states of records by the results of their work';

CREATE FUNCTION pawl_bulk._end_late(operations uuid[], rows bigint[], steps integer[], now_at timestamptz)
    RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    ended bigint;
BEGIN
    UPDATE pawl_bulk.records r
       SET state = 'TimedOut', error_type = 'Timeout', completed_at = now_at,
           error_message = CASE r.state WHEN 'Running' THEN 'the run limit was exceeded'
               ELSE 'nothing arrived within the timeout' END
      FROM unnest(operations, rows, steps) u(operation, row_number, step_index)
     WHERE r.operation = u.operation AND r.row_number = u.row_number AND r.step_index = u.step_index
         AND r.state IN ('Running', 'WaitingForCompletion');
    GET DIAGNOSTICS ended = ROW_COUNT;
    RETURN ended;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._end_late(uuid[], bigint[], integer[], timestamptz) IS
'internal: times records out; returns how many';

CREATE FUNCTION pawl_bulk._time_out_later(operation uuid, row_number bigint, step_index integer) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $function$
#variable_conflict use_variable
BEGIN
    UPDATE pawl_bulk.work w SET deadline_at = clock_timestamp() + interval '1 min'
     WHERE w.operation = operation AND w.row_number = row_number AND w.step_index = step_index;
EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
    IF pawl_bulk._ends_duty(SQLSTATE) THEN
        RAISE;
    END IF;
    RAISE WARNING 'row % of operation % is not put off: %', row_number, operation, SQLERRM USING ERRCODE = SQLSTATE;
END
$function$;
COMMENT ON FUNCTION pawl_bulk._time_out_later(uuid, bigint, integer) IS
'internal: a record that cannot be timed out is left for a minute';

-- Records whose deadline has passed. A check that is due, or being made, gets a little more time: the last one is made
-- at the deadline.
CREATE FUNCTION pawl_bulk.time_out(batch integer DEFAULT 1000, OUT done bigint, OUT next_at timestamptz)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET pawl.event = ''
SET pawl.token = ''
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $function$
#variable_conflict use_variable
DECLARE
    now_at constant timestamptz := clock_timestamp();
    late record;
BEGIN
    PERFORM pawl.check_batch(batch, 100000);
    SELECT array_agg(l.operation) AS operations, array_agg(l.row_number) AS rows, array_agg(l.step_index) AS steps
        INTO late
      FROM (SELECT w.operation, w.row_number, w.step_index FROM pawl_bulk.work w
             WHERE w.deadline_at <= now_at
               AND NOT (w.kind = 'check' AND w.deadline_at > now_at - interval '5 s'
                        AND (w.state = 'leased' AND w.lease_until > now_at OR w.state <> 'leased'
                            AND (w.due IS NULL OR w.due <= w.deadline_at)))
             ORDER BY w.deadline_at LIMIT batch FOR UPDATE SKIP LOCKED) l;
    BEGIN
        done := coalesce(pawl_bulk._end_late(late.operations, late.rows, late.steps, now_at), 0);
    EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
        -- row by row; one that cannot be timed out is left for a minute
        done := 0;
        FOR k IN 1 .. cardinality(late.rows) LOOP
            BEGIN
                done := done + pawl_bulk._end_late(late.operations[k:k], late.rows[k:k], late.steps[k:k], now_at);
            EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
                IF pawl_bulk._ends_duty(SQLSTATE) THEN
                    RAISE;
                END IF;
                RAISE WARNING 'row % of operation % cannot be timed out: %', late.rows[k], late.operations[k], SQLERRM;
                PERFORM pawl_bulk._time_out_later(late.operations[k], late.rows[k], late.steps[k]);
            END;
        END LOOP;
    END;
    SELECT greatest(min(w.deadline_at), now_at + interval '1 s') INTO next_at FROM pawl_bulk.work w
        WHERE w.deadline_at IS NOT NULL;
END
$function$;
COMMENT ON FUNCTION pawl_bulk.time_out(integer) IS
'Times out records whose deadline or run limit has passed; a check at the deadline has five seconds left. A duty:
call it periodically.
batch: 1 to 100000; default 1000. Returns done (how many) and next_at (when the next record times out).
Errors: 22023 batch out of range. Privileges: pawl_admin, pawl_operator, pawl_worker.
Example: SELECT * FROM pawl_bulk.time_out()';
